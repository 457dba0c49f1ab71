"""Directives never change what a kernel computes: random schedules, legal where they are accepted."""

import random

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from sched_kernels import KERNELS, Session, check_values, fresh

from mlc.passes.loop.apply_schedule import finish
from mlc.passes.loop.index_space.domain import loops_around
from mlc.support.errors import UserError

ACTIONS = (
    "split split reorder reorder fuse tile peel compute_at compute_at reverse reverse inline decompose rfactor "
    "parallel vectorize cache_read cache_write layout scope"
).split()


class Random:
    """One random directive after the other."""

    def __init__(self, session: Session, rng: random.Random) -> None:
        self.s, self.rng = session, rng
        self.done: list[str] = []

    def pick(self, items):
        return items[self.rng.randrange(len(items))]

    def block(self):
        return self.s.block(self.pick(sorted(self.s.kernel_.blocks)))

    def loops(self, block):
        return self.s.loops(block, len(loops_around(self.s.kernel_.handles[block])))

    def loop(self, block=None):
        found = self.loops(self.block() if block is None else block)
        return self.pick(found) if found else None

    def step(self) -> None:
        action = self.pick(ACTIONS)
        try:
            if getattr(self, action)() is not False:
                self.done.append(action)
        except UserError:
            pass

    def split(self):
        f = self.loop()
        return f is not None and self.s.split(f, self.pick([[None, 2], [None, 4], [3, None], [None, 3, 2]]))

    def tile(self):
        fs = self.loops(self.block())
        return len(fs) > 1 and self.s.tile(fs[:2], [2, 3])

    def reorder(self):
        fs = self.loops(self.block())
        chosen = self.rng.sample(fs, self.rng.randint(0, len(fs)))
        return len(chosen) > 1 and self.s.reorder(*chosen)

    def fuse(self):
        fs = self.loops(self.block())
        if len(fs) < 2:
            return False
        k = self.rng.randrange(len(fs) - 1)
        return self.s.fuse(*fs[k : k + 2])

    def compute_at(self):
        f = self.loop()
        return f is not None and self.s.compute_at(self.block(), f)

    def reverse(self):
        f = self.loop()
        return f is not None and self.s.reverse_compute_at(self.block(), f)

    def inline(self):
        return self.s.compute_inline(self.block())

    def decompose(self):
        b = self.block()
        f = self.loop(b)
        return f is not None and self.s.decompose_reduction(b, f)

    def parallel(self):
        f = self.loop()
        return f is not None and self.s.parallel(f)

    def vectorize(self):
        fs = self.loops(self.block())
        return bool(fs) and self.s.vectorize(*fs[-1:])

    def peel(self):
        f = self.loop()
        return f is not None and self.s.peel(f, 1)

    def cache_read(self):
        return self.s.cache_read(self.block(), 0, "local")

    def cache_write(self):
        return self.s.cache_write(self.block(), "shared")

    def rfactor(self):
        f = self.loop()
        return f is not None and self.s.rfactor(f, self.rng.randrange(2))

    def layout(self):
        from mlc.dialects.index import tile

        maps = [[tile(1), tile(0)], [tile(0), tile(1).floordiv(4), tile(1).mod(4)], [tile(0) * 40 + tile(1)]]
        return self.s.transform_layout(self.block(), self.pick(maps))

    def scope(self):
        return self.s.set_scope(self.block(), "local")


def random_schedule(name: str, rng: random.Random, steps: int) -> Random:
    """A kernel after random directives, its values checked."""
    func = fresh(KERNELS[name])
    run = Random(Session(func), rng)
    for _ in range(steps):
        run.step()
    try:
        finish(run.s.kernel_)
    except UserError:
        return run
    note("\n".join(map(str, [*run.s.body.ops, func])))
    check_values(func, KERNELS[name])
    return run


@settings(max_examples=50, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.sampled_from(sorted(KERNELS)), st.randoms(use_true_random=False), st.integers(1, 12))
def test_random_schedules_keep_values(name, rng, steps):
    random_schedule(name, rng, steps)
