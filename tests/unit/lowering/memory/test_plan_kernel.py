"""loop-plan-memory: buffers inside a kernel share memory, the values stay, and the independent checker agrees."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_kernels import rand
from loop_native import native_kernel, parse
from xdsl.dialects.builtin import IntegerAttr, i64

from mlc.dialects import loop
from mlc.dialects.attributes import LOOP_OFFSET
from mlc.dialects.index import const, dim
from mlc.interp import loop as interp
from mlc.lowering.loop_to_llvm.convert import lower_kernel
from mlc.lowering.memory.kernel_buffers import static_places
from mlc.lowering.memory.plan_kernel import is_at_least, lives_of, plan_kernel
from mlc.validation.plans.kernel_plan_check import check_kernel_plan
from mlc.validation.plans.plan_places import PlanError


def func(body: str, args: str = "%x: memref<1024xf32>, %y: memref<1024xf32>") -> loop.FuncOp:
    return parse(f"loop.func @k({args}) attributes {{outputs = 1 : i64}} {{\n{body}\n}}")


def stage(source: str, target: str, size: object = 1024) -> str:
    """`target` = twice `source`, element by element."""
    return f"""loop.for %i = 0 to {size} {{
      %v = loop.load {source}[%i] : f32
      %w = arith.addf %v, %v : f32
      loop.store %w, {target}[%i] : f32
    }}"""


def alloc(name: str, type_: str = "1024xf32", scope: str = "local") -> str:
    return f'{name} = loop.alloc "{scope}" : memref<{type_}>\n'


def places(kernel: loop.FuncOp) -> dict[str | None, int]:
    return {value.name_hint: offset for value, offset in static_places(kernel)[0].items()}


CHAIN = "".join(alloc(name) for name in ("%a", "%b", "%c"))
CHAIN += "\n".join(stage(*pair) for pair in (("%x", "%a"), ("%a", "%b"), ("%b", "%c"), ("%c", "%y")))


def test_of_three_chained_buffers_the_first_and_the_last_share():
    kernel = func(CHAIN)
    assert static_places(kernel)[1] == (0, 3 * (4096 + 64))
    plan_kernel(kernel)
    assert static_places(kernel)[1] == (0, 2 * (4096 + 64))
    assert places(kernel)["a"] == places(kernel)["c"] != places(kernel)["b"]
    assert check_kernel_plan(kernel) == 3
    x = rand(1024)
    (y,) = native_kernel(kernel)([x])
    np.testing.assert_array_equal(y, x * 16)


def test_scratch_and_workspace_are_planned_apart():
    kernel = func(CHAIN.replace('%b = loop.alloc "local"', '%b = loop.alloc "shared"'))
    plan_kernel(kernel)
    assert static_places(kernel)[1] == (4096 + 64, 4096 + 64)
    assert check_kernel_plan(kernel) == 3


def test_a_buffer_that_a_loop_reads_lives_through_the_whole_loop():
    body = f"""{alloc("%a")} {stage("%x", "%a")}
    loop.for %n = 0 to 3 {{
      {alloc("%b")} {stage("%a", "%b")} {stage("%b", "%y")}
    }}"""
    kernel = func(body)
    plan_kernel(kernel)
    assert places(kernel)["a"] != places(kernel)["b"]


def parallel(scope: str) -> loop.FuncOp:
    """Two chained pairs of buffers in a parallel loop."""
    rows = "".join(alloc(name, "64xf32", scope) for name in ("%a", "%b", "%c"))
    stages = (("%x", "%a"), ("%a", "%b"), ("%b", "%c"), ("%c", "%y"))
    return func(f"loop.for %p = 0 to 4 parallel {{ {rows} {' '.join(stage(*pair, 64) for pair in stages)} }}")


def test_threads_have_scratch_of_their_own_but_share_the_workspace():
    local, shared = parallel("local"), parallel("shared")
    for kernel in (local, shared):
        plan_kernel(kernel)
        check_kernel_plan(kernel)
    assert static_places(local)[1] == (0, 2 * (256 + 64))
    assert static_places(shared)[1] == (3 * (256 + 64), 0)  # another thread may be at another stage


SYMBOLIC = """
  %a = loop.alloc "SCOPE" (%n) : memref<?xf32>
  %b = loop.alloc "SCOPE" (%n) : memref<?xf32>
  %c = loop.alloc "SCOPE" (%n + SHIFT) : memref<?xf32>
"""


@pytest.mark.parametrize("scope", ["local", "shared"])
@pytest.mark.parametrize(("shift", "slots"), [(0, 2), (1, 2), (-1, 2)])
def test_buffers_of_symbolic_sizes_share_where_one_is_always_as_large(scope: str, shift: int, slots: int):
    pairs = (("%x", "%a"), ("%a", "%b"), ("%b", "%c"), ("%c", "%y"))
    stages = "\n".join(stage(*pair, "%n" if shift >= 0 else "%n - 1") for pair in pairs)
    nest = f"loop.for %p = 0 to 1 {{ {SYMBOLIC} {stages} }}"
    text = nest.replace("SCOPE", scope).replace("SHIFT", str(shift))
    kernel = func(text, "%x: memref<40xf32>, %y: memref<40xf32>, %n: index")
    plan_kernel(kernel)
    assert check_kernel_plan(kernel) == 3
    (*_, machine) = lower_kernel(kernel, 16)
    assert len(machine.attributes["mlc.symbolic_bytes"].data) == slots
    x, expected = rand(40), 16 * rand(40)
    (y,) = native_kernel(kernel)([x, 40])
    np.testing.assert_array_equal(y[: 40 + min(shift, 0)], expected[: 40 + min(shift, 0)])


def test_a_slot_that_is_too_small_is_found():
    text = SYMBOLIC.replace("SCOPE", "local").replace("SHIFT", "1")
    text = text.replace('"local" (%n) : memref', '"local" (%n) {mlc.slot = 0 : i64} : memref', 1)
    text = text.replace("(%n + 1) : memref", "(%n + 1) {mlc.shares = 0 : i64} : memref")
    kernel = func(text, "%x: memref<40xf32>, %y: memref<40xf32>, %n: index")
    with pytest.raises(PlanError, match=r"expected slot 0 to have room for \d+ bytes of scope 'local', but got \d+"):
        check_kernel_plan(kernel)


@pytest.mark.parametrize(("large", "small", "proved"), [
    ([const(4), dim(0)], [const(4), dim(0)], True),
    ([const(4), dim(0) + 1], [const(4), dim(0)], True),
    ([const(4), dim(0)], [const(4), dim(0) + 1], False),
    ([const(8), dim(0)], [const(4), dim(0), const(2)], True),
    ([const(4), dim(0), dim(1)], [const(4), dim(1), dim(0)], True),
    ([const(4), dim(0) * 2 + 3, dim(1)], [const(4), dim(1), dim(0) + 1], True),
    ([const(4), dim(0)], [const(4), dim(1)], False),
    ([const(4), dim(0) * 8], [const(32)], True),
    ([const(4), dim(0)], [const(64)], False),
])  # fmt: skip
def test_sizes_are_compared_at_all_values_of_the_symbols(large, small, proved):
    assert is_at_least(large, small, [(1, 1000), (1, 1000)]) == proved


# --- random kernels: nests of loops whose bodies allocate, fill and read buffers ---


class RandomKernel:
    """The text of a kernel that fills buffers from each other in loops, parallel ones too, and sums up in %y."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw, self.count, self.lines = draw, 0, list[str]()
        self.body({"%x": 24}, 3, parallel=False, writable=[])

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"%{prefix}{self.count}"

    def body(self, readable: dict[str, int], depth: int, parallel: bool, writable: list[str]) -> None:
        """Statements on the buffers that may be read and written here."""
        readable, writable = dict(readable), list(writable)
        kinds = [
            "stage",
            "stage",
            "update",
            *(["loop"] if depth else []),
            *(["parallel"] if depth and not parallel else []),
        ]
        for _ in range(self.draw(st.integers(1, 4))):
            match self.draw(st.sampled_from(kinds)):
                case "stage":
                    name, size = self.name("b"), self.draw(st.sampled_from([8, 16, 40]))
                    scope = "local" if parallel else self.draw(st.sampled_from(["local", "shared"]))
                    self.lines.append(f'{name} = loop.alloc "{scope}" : memref<{size}xf32>')
                    self.fill(name, size, readable)
                    readable[name] = size
                    writable.append(name)
                case "update" if writable:
                    name = self.draw(st.sampled_from(writable))
                    self.fill(name, readable[name], {**readable, name: readable[name]})
                case "loop":
                    self.nest(f"{self.draw(st.integers(1, 3))}", readable, depth, parallel, writable)
                case "parallel":
                    seen = {
                        n: size
                        for n, size in readable.items()
                        if n == "%x" or f'{n} = loop.alloc "shared"' in self.text()
                    }
                    self.nest("3 parallel", seen, depth, True, [])
                case _:
                    pass
        self.sum_up(readable, "%p" if parallel else "3")

    def nest(self, extent: str, readable: dict[str, int], depth: int, parallel: bool, writable: list[str]) -> None:
        iv = "%p" if "parallel" in extent else self.name("n")
        self.lines.append(f"loop.for {iv} = 0 to {extent} {{")
        self.body(readable, depth - 1, parallel, writable)
        self.lines.append("}")

    def fill(self, name: str, size: int, readable: dict[str, int]) -> None:
        sources = [self.draw(st.sampled_from(sorted(readable))) for _ in range(2)]
        reads = [f"%v{k} = loop.load {s}[%i mod {readable[s]}] : f32" for k, s in enumerate(sources)]
        self.lines += [f"loop.for %i = 0 to {size} {{", *reads, "%w = arith.subf %v0, %v1 : f32"]
        self.lines += ["%h = loop.load %x[%i mod 24] : f32", "%z = arith.addf %w, %h : f32"]
        self.lines += [f"loop.store %z, {name}[%i] : f32", "}"]

    def sum_up(self, readable: dict[str, int], row: str) -> None:
        for name in [n for n in readable if self.draw(st.booleans())]:
            self.lines += ["loop.for %i = 0 to 40 {", f"%a = loop.load %y[{row}, %i] : f32"]
            self.lines += [f"%b = loop.load {name}[%i mod {readable[name]}] : f32", "%s = arith.addf %a, %b : f32"]
            self.lines += [f"loop.store %s, %y[{row}, %i] : f32", "}"]

    def text(self) -> str:
        return "\n".join(self.lines)


START = """loop.for %r = 0 to 4 { loop.for %i = 0 to 40 {
  %z = arith.constant 0.0 : f32  loop.store %z, %y[%r, %i] : f32 } }
"""


@st.composite
def random_kernels(draw: st.DrawFn) -> loop.FuncOp:
    return func(START + RandomKernel(draw).text(), "%x: memref<24xf32>, %y: memref<4x40xf32>")


@given(random_kernels(), st.sampled_from(["best", "tokens", "greedy-by-size"]))
@settings(max_examples=15)
def test_values_of_random_kernels_stay(kernel: loop.FuncOp, planner: str):
    x = np.random.default_rng(0).integers(-9, 9, 24).astype(np.float32)
    expected = interp.run(kernel, [x, np.zeros((4, 40), np.float32)])[-1]
    before = static_places(kernel)[1]
    plan_kernel(kernel, planner)
    check_kernel_plan(kernel)
    assert all(a <= b for a, b in zip(static_places(kernel)[1], before, strict=True))
    (y,) = native_kernel(kernel)([x])
    np.testing.assert_array_equal(y, expected)


@given(random_kernels(), st.data())
@settings(max_examples=40)
def test_the_checker_accepts_what_lives_apart_and_nothing_else(kernel: loop.FuncOp, data: st.DataObject):
    """A buffer that is put where another one is: the check fails if, and only if, both are in use at once."""
    plan_kernel(kernel)
    lives = lives_of(kernel)
    if len(lives) < 2:
        return
    one, other = data.draw(st.sampled_from([(a, b) for a in lives for b in lives if a is not b]))
    end = static_places(kernel)[1]
    for alloc in lives:  # everything apart, but for these two
        alloc.attributes[LOOP_OFFSET] = IntegerAttr(64 * sum(end) + 4096 * list(lives).index(alloc), i64)
    one.attributes[LOOP_OFFSET] = other.attributes[LOOP_OFFSET]
    apart = lives[one][1] < lives[other][0] or lives[other][1] < lives[one][0]
    if apart or one.scope != other.scope:
        check_kernel_plan(kernel)
    elif any(use.operation for use in one.result.uses) and lives[one][0] != lives[one][1] != lives[other][1]:
        with pytest.raises(PlanError, match=r"is overwritten by|overlap"):
            check_kernel_plan(kernel)
