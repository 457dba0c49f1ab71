"""
`Config`: what a template asks for its choices; TVM's ConfigSpace and ConfigEntity in one.

    cfg.define_split("tile_j", n, num_outputs=2, filter=lambda one: one.size[-1] <= 64)
    jo, ji = cfg["tile_j"].apply(s, s["C"], j)

A template runs once to find its space, then once for each candidate: definitions give the space, `cfg[name]` the value
of the candidate. Where no record is in force the values are those of the fallback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from mlc.dialects import sched
from mlc.dialects.value_names import value_name
from mlc.support.errors import UserError, did_you_mean
from mlc.targets.target import Target
from mlc.tuning.space import STRATEGY, Knob, KnobValue, Values
from mlc.tuning.templates.entities import Entity, OtherEntity, Scalar, SplitEntity
from mlc.tuning.templates.policies import annotate_entities, reorder_entities, split_entities


class HasExtent(Protocol):
    """A te.reduce_axis, a loop of a schedule, an axis of define_split."""

    @property
    def extent(self) -> int | None: ...


@dataclass(frozen=True)
class ConfigAxis:
    """An axis that a split will give, for define_reorder and define_annotate."""

    name: str
    extent: int | None
    """None where it differs between candidates."""


@dataclass
class _Defined:
    """A knob of the template: its candidates by value, and the one that is in force."""

    candidates: dict[KnobValue, Entity]
    fallback: KnobValue
    value: KnobValue


class Config:
    """The choices of a template."""

    def __init__(
        self, target: Target, threads: int, values: Values | None = None, defaults: Values | None = None
    ) -> None:
        self.target = target
        """The target that is compiled for; give it to mlc.Schedule."""
        self.threads = threads
        """The number of threads that the operator may use."""
        self.is_fallback = values is None
        """Whether neither a record nor a candidate is given: the values are defaults, which the template may set."""
        self.flop: int | None = None
        """The operations of a call by add_flop; None where they are counted."""
        self._values, self._defaults = values, defaults or {}
        self._defined: dict[str, _Defined] = {}

    # --- definitions --------------------------------------------------------------------------------------------

    def define_split(
        self,
        name: str,
        axis: int | HasExtent,
        policy: str = "factors",
        *,
        num_outputs: int = 2,
        filter: Callable[[SplitEntity], bool] | None = None,
        max_factor: int | None = None,
        no_tail: bool | None = None,
        candidate: Iterable[Sequence[int]] | None = None,
    ) -> list[ConfigAxis]:
        """
        A choice of how to split an axis, given as its extent or as what has one, into `num_outputs` loops.

        `policy` says which factors the inner loops may have: divisors of the extent (`factors`), powers of two
        (`power2`) or both (`verbose`), at most `max_factor`; `candidate` takes the lists given. `filter` keeps those
        for which it is true. With `no_tail`, the default of `factors`, the loops cover the axis exactly. Raises
        UserError for an unknown policy, an axis of open size, and where no candidate is left.
        """
        extent = _extent(axis)
        found = split_entities(
            extent,
            policy,
            num_outputs=num_outputs,
            filter=filter,
            max_factor=max_factor,
            no_tail=no_tail,
            candidate=candidate,
        )
        self._define(name, found)
        return [ConfigAxis(f"{name}.{number}", None) for number in range(num_outputs)]

    def define_reorder(
        self,
        name: str,
        axes: Sequence[object],
        policy: str = "all",
        *,
        candidate: Iterable[Sequence[object]] | None = None,
        interval: tuple[int, int] | None = None,
        spatial: Sequence[Sequence[object]] = (),
        reduce: Sequence[Sequence[object]] = (),
    ) -> None:
        """
        A choice of the order of axes: loops, axes of define_split, or names.

        `policy` is `identity`, `all`, `interval_all` (the axes of `interval`, end excluded), `candidate` (the lists of
        axes given) or `interleave` (chains of `spatial` and `reduce` axes are merged). Raises UserError for another
        policy, and for an order that has not each axis once.
        """
        names = [str(number) for number in range(len(axes))]

        def named(chain: Sequence[object]) -> list[str]:
            return [names[_place(axes, one)] for one in chain]

        orders = None if candidate is None else [named(one) for one in candidate]
        chains, sums = [named(one) for one in spatial], [named(one) for one in reduce]
        found = reorder_entities(names, policy, candidate=orders, interval=interval, spatial=chains, reduce=sums)
        self._define(name, found)

    def define_annotate(
        self, name: str, axes: Sequence[object], policy: str, *, candidate: Iterable[Sequence[str]] | None = None
    ) -> None:
        """
        A choice of which axes are unrolled, and which one is vectorized.

        `policy` is words among try (or none), unroll and vec joined by "_", as `try_unroll_vec`, or `candidate`: a list
        of lists of words, one for each axis. Raises UserError for another word.
        """
        self._define(name, annotate_entities(len(axes), policy, candidate))

    def define_knob(self, name: str, candidate: Iterable[Scalar]) -> None:
        """A choice among integers, texts, True, False, None, floats, tuples of integers; the first is the default."""
        found = [OtherEntity(one) for one in candidate]
        for one in found:
            _check_scalar(name, one.val)
        if not found:
            raise UserError(f"expected at least one candidate of knob '{name}'")
        if len({one.value for one in found}) < len({(type(one.val), one.val) for one in found}):
            raise UserError(
                f"expected candidates of different texts of knob '{name}', but got {[o.val for o in found]}"
            )
        self._define(name, found)

    def _define(self, name: str, found: Sequence[Entity]) -> None:
        """Note a knob; the first definition of a name counts."""
        if name == STRATEGY or not name:
            raise UserError(f"expected another name for a knob than {name!r}")
        if name in self._defined:
            return
        candidates = {one.value: one for one in found}
        first = next(iter(candidates))
        value = first if self._values is None else self._values.get(name, first)
        if self._values is not None and name not in self._values:
            raise UserError(f"expected the same knobs for all candidates, but '{name}' is a new one")
        if value not in candidates:
            known = ", ".join(map(sched.knob_text, candidates))
            raise UserError(f"expected knob '{name}' among [{known}], but got {sched.knob_text(value)}")
        self._defined[name] = _Defined(candidates, self._defaults.get(name, first), value)

    # --- values -------------------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Any:
        """The entity in force: `.apply(s, block, loops)`, and `.size`, `.perm`, `.anns` or `.val`."""
        one = self._known(name)
        return one.candidates[one.value]

    def __setitem__(self, name: str, entity: Entity) -> None:
        """Set the value of the fallback, where `is_fallback`; UserError for one that is not among the candidates."""
        one = self._known(name)
        if not isinstance(entity, Entity):  # pyright: ignore[reportUnnecessaryIsInstance] callers need not be typed
            raise UserError(f"expected an entity for knob '{name}', as SplitEntity((-1, 8)), but got {entity!r}")
        if entity.value not in one.candidates:
            known = ", ".join(map(sched.knob_text, one.candidates))
            raise UserError(f"expected knob '{name}' among [{known}], but got {sched.knob_text(entity.value)}")
        if self.is_fallback:
            one.fallback = one.value = entity.value

    def fallback_split(self, name: str, caps: Sequence[int]) -> None:
        """
        Let the fallback of a split be the largest factors that are at most the caps, the innermost first.

        `caps` has a number for each loop of the split; -1 or 0 for no cap. Without effect where a candidate is given.
        """
        one = self._known(name)
        splits = [found for found in one.candidates.values() if isinstance(found, SplitEntity)]
        if len(splits) != len(one.candidates):
            raise UserError(f"expected '{name}' to be a split")
        if len(caps) != len(splits[0].size):
            raise UserError(f"expected {len(splits[0].size)} caps for split '{name}', but got {len(caps)}")
        fitting = [
            split.size
            for split in splits
            if all(cap <= 0 or size <= cap for size, cap in zip(split.size[1:], caps[1:], strict=True))
        ]
        if not fitting:
            raise UserError(f"expected a candidate of split '{name}' within {list(caps)}, but there is none")
        self[name] = SplitEntity(max(fitting, key=lambda size: size[::-1]))

    def add_flop(self, flop: int) -> None:
        """Add to the operations of a call, which are then not counted from the operator."""
        self.flop = (self.flop or 0) + int(flop)

    def raise_error(self, message: str) -> None:
        """Refuse the candidate."""
        raise UserError(message)

    # --- for Template -------------------------------------------------------------------------------------------

    def knobs(self) -> tuple[Knob, ...]:
        """The knobs that were defined; their defaults are the fallback's."""
        return tuple(Knob(name, tuple(one.candidates), one.fallback) for name, one in self._defined.items())

    def knob_ops(self) -> list[sched.KnobOp]:
        """The knobs as ops with the values in force."""
        ops: list[sched.KnobOp] = []
        for name, one in self._defined.items():
            op = sched.KnobOp.make(name, tuple(one.candidates), one.fallback, one.value)
            plain = "".join(c if c.isalnum() else "_" for c in name) if name[0].isalpha() else "knob"
            op.result.name_hint = value_name(plain)
            ops.append(op)
        return ops

    def check_values(self) -> None:
        """UserError where a value is given for a knob that the template did not define."""
        for name in self._values or ():
            if name != STRATEGY and name not in self._defined:
                raise UserError(f"the template has no knob '{name}'{did_you_mean(name, self._defined)}")

    def _known(self, name: str) -> _Defined:
        if name not in self._defined:
            known = ", ".join(self._defined) or "none"
            raise UserError(f"expected a knob that was defined ({known}), but got '{name}'")
        return self._defined[name]


def _extent(axis: int | HasExtent) -> int:
    extent = axis if isinstance(axis, int) else getattr(axis, "extent", None)
    if isinstance(extent, bool) or not isinstance(extent, int) or extent < 1:
        raise UserError(f"expected an axis of a known extent, at least 1, to split, but got {axis!r}")
    return extent


def _place(axes: Sequence[object], one: object) -> int:
    for number, axis in enumerate(axes):
        if axis is one or axis == one:
            return number
    raise UserError(f"expected an axis of the list that is reordered, but got {one!r}")


def _check_scalar(name: str, value: object) -> None:
    is_list = isinstance(value, tuple) and all(type(one) is int for one in cast("tuple[object, ...]", value))
    if not is_list and value is not None and not isinstance(value, int | float | str | bool):
        raise UserError(
            f"expected a number, a text, True, False, None or a tuple of integers in '{name}', got {value!r}"
        )


__all__ = ["Config", "ConfigAxis"]
