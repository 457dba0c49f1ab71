"""
The strategies by family, target condition and priority: mlc's own, a program's, and those of installed distributions.

    @strategy(family="contraction", priority=100, when=lambda target: target.architecture == "aarch64")
    def dense_by_rows(kernel, target, threads):
        ...                                     # a sched.schedule, or None for a kernel that it does not handle

A distribution names such functions in the entry point group `mlc.strategies`. A kernel is scheduled by the first
strategy that accepts it, in the order of `strategies()`; the pass te-add-schedule tries them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from mlc.dialects import sched
from mlc.schedules.analysis import KernelInfo
from mlc.support.errors import UserError, did_you_mean
from mlc.support.registered.plugins import entry_points, plugins
from mlc.support.registered.registrations import note
from mlc.targets.target import Target

Write = Callable[[KernelInfo, Target, int], sched.ScheduleOp | None]
"""(kernel, target, threads) -> its schedule; None for a kernel that the strategy does not schedule."""

ENTRY_POINT_GROUP = "mlc.strategies"
"""The entry points of installed strategies: any name -> module:function, a function with `@strategy`."""

BUILTIN_MODULES = (
    "mlc.schedules.strategies.recurrence",
    "mlc.schedules.strategies.attention",
    "mlc.schedules.strategies.winograd",
    "mlc.schedules.strategies.matmul",
    "mlc.schedules.strategies.planes",
    "mlc.schedules.strategies.clipped",
    "mlc.schedules.strategies.dilated",
    "mlc.schedules.strategies.vector_matrix",
    "mlc.schedules.strategies.contraction",
    "mlc.schedules.strategies.rows",
    "mlc.schedules.strategies.reduction",
    "mlc.schedules.strategies.injective",
    "mlc.schedules.sketches.sketch",
)
"""The modules of mlc's own strategies."""

FAMILIES: dict[str, Callable[[KernelInfo], bool]] = {
    "scan": lambda kernel: kernel.has_scans,
    "contraction": lambda kernel: (
        not kernel.has_scans and any(stage.factors is not None for stage in kernel.stages) and not _is_guarded(kernel)
    ),
    "reduction": lambda kernel: (
        not kernel.has_scans and any(stage.is_reduction for stage in kernel.stages) and not _is_guarded(kernel)
    ),
    "injective": lambda kernel: not kernel.has_scans and not any(stage.is_reduction for stage in kernel.stages),
    "any": lambda kernel: True,
}
"""
The kernels on which the strategies of a family are tried.

`scan`: kernels with a te.scan. `contraction`: no te.scan, at least one stage is a sum of products. `reduction`: no
te.scan, at least one stage reduces. Both leave out kernels that reduce under a mask computed from data. `injective`: no
te.scan, no stage reduces. `any`: every kernel.
"""


def _is_guarded(kernel: KernelInfo) -> bool:
    """
    Whether a reduction reads under a mask computed from data.

    Such a read has no vector form, so strategies for contractions and reductions leave the kernel alone.
    """
    return any(stage.is_reduction and stage.has_computed_mask for stage in kernel.stages)


@dataclass(frozen=True)
class Strategy:
    """A registered function that writes schedules, with the conditions under which it is tried."""

    name: str
    family: str
    priority: int
    write: Write
    when: Callable[[Target], bool] | None = None
    """The targets for which it is tried; None for all."""
    accepts: Callable[[KernelInfo], bool] | None = None
    """The kernels for which it is tried, of its family; None for all."""
    version: int = 1
    """Raised when the same knobs give another schedule: records of other versions are ignored."""

    def schedule(self, kernel: KernelInfo, target: Target, threads: int) -> sched.ScheduleOp | None:
        """The schedule that it writes for a kernel; None where it does not accept the kernel or is not tried."""
        if not FAMILIES[self.family](kernel) or (self.when is not None and not self.when(target)):
            return None
        if self.accepts is not None and not self.accepts(kernel):
            return None
        found = self.write(kernel, target, threads)
        if not isinstance(found, sched.ScheduleOp | None):  # pyright: ignore[reportUnnecessaryIsInstance]  # user's code
            raise UserError(f"strategy '{self.name}': expected a sched.schedule or None, but got {found!r}")
        return found


STRATEGIES: dict[str, Strategy] = {}
"""mlc's own strategies and those of installed distributions, by name."""
USER_STRATEGIES: dict[str, Strategy] = {}
"""The strategies that this program registers, by name."""


def strategy(
    *,
    family: str,
    priority: int = 100,
    when: Callable[[Target], bool] | None = None,
    accepts: Callable[[KernelInfo], bool] | None = None,
    key: str | None = None,
    version: int = 1,
) -> Callable[[Write], Write]:
    """
    Register a function that writes schedules, under its name; higher priorities are tried first.

    `when` is a condition on the target, `accepts` one on the kernel. mlc's own have the priorities 1 to 70. `key` is a
    text that changes whenever the schedules change: it goes into the caches' keys. Without one a program's strategy
    turns the caches off; an installed one's version is its key. Raise `version` when the same values of the knobs give
    another schedule: tuning records carry it, and records of other versions are ignored.
    """
    if family not in FAMILIES:
        raise UserError(f"expected family to be one of {', '.join(FAMILIES)}, but got {family!r}")

    def register(write: Write) -> Write:
        name, module = write.__name__, write.__module__
        before = STRATEGIES.get(name) or USER_STRATEGIES.get(name)
        if before is not None and before.write.__module__ != module:
            other = before.write.__module__
            raise UserError(f"expected a new strategy name, but got '{name}', which {other} registers")
        new = Strategy(name, family, priority, write, when, accepts, version)
        if module in BUILTIN_MODULES or _is_installed(module):
            STRATEGIES[name] = new
        else:
            USER_STRATEGIES[name] = new
            note("strategy", name, key)
        return write

    return register


def register_strategy(
    write: Write,
    *,
    family: str,
    priority: int = 100,
    when: Callable[[Target], bool] | None = None,
    accepts: Callable[[KernelInfo], bool] | None = None,
    key: str | None = None,
    version: int = 1,
) -> Write:
    """Register a function that writes schedules, as the decorator `@strategy` does, which documents the arguments."""
    if not callable(write):  # pyright: ignore[reportUnnecessaryComparison] callers need not be typed
        raise UserError(f"expected a function (kernel, target, threads) -> schedule, but got {write!r}")
    return strategy(family=family, priority=priority, when=when, accepts=accepts, key=key, version=version)(write)


def strategies() -> list[Strategy]:
    """
    All strategies in the order in which they are tried: higher priorities first.

    At equal priority, mlc's own come in the order of BUILTIN_MODULES, whatever the order of imports, and the others
    after them in the order of their registration.
    """
    for module in BUILTIN_MODULES:
        import_module(module)
    _load_installed(tuple(plugins()))
    places = {module: place for place, module in enumerate(BUILTIN_MODULES)}

    def order(one: Strategy) -> tuple[int, int]:
        return -one.priority, places.get(one.write.__module__, len(places))

    return sorted([*STRATEGIES.values(), *USER_STRATEGIES.values()], key=order)


def find_strategy(name: str) -> Strategy:
    """The strategy of that name."""
    known = {one.name: one for one in strategies()}
    if name not in known:
        raise UserError(f"expected a strategy among {', '.join(known)}, but got '{name}'{did_you_mean(name, known)}")
    return known[name]


def strategy_version(name: str) -> str:
    """The version of a strategy as records carry it; empty if there is no strategy of that name."""
    found = next((one for one in strategies() if one.name == name), None)
    return "" if found is None else str(found.version)


def _is_installed(module: str) -> bool:
    """Whether an installed distribution names the module among its strategies: its version is in the caches' keys."""
    return any(point.module == module for point in entry_points(ENTRY_POINT_GROUP).values())


@cache
def _load_installed(_plugins: object) -> None:
    """Import the strategies of installed distributions, once."""
    for name, point in entry_points(ENTRY_POINT_GROUP).items():
        try:
            found = point.load()
        except Exception as error:
            raise UserError(f"strategy '{name}' cannot be imported: {error}") from error
        if not any(one.write is found for one in STRATEGIES.values()):
            raise UserError(f"strategy '{name}': expected {point.value} to be a function with @strategy")
