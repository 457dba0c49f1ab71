"""
Patterns of graph ops, which say what an external compiler takes over.

    conv = is_op("graph.conv2d")(wildcard(), is_constant())
    bias = is_op("graph.bias_add")(conv, is_constant())
    Pattern("conv2d_bias_relu", is_op("graph.relu")(bias) | bias, lambda match: match.root.type.get_num_dims() == 4)

A pattern is matched from its last op upwards. The results inside of a match are read by the match alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from mlc.dialects.graph import ConstantOp, ParamOp
from mlc.support.errors import UserError

Found = dict[Operation, None]
"""The ops of a match, the last one first."""


class OperandPattern:
    """What an operand must be: an op of a kind, a constant, anything; `a | b` is the first of two that matches."""

    def match(self, value: SSAValue, found: Found) -> bool:
        """Whether a value matches; its ops are added to `found`."""
        raise NotImplementedError

    def __or__(self, other: OperandPattern) -> OperandPattern:
        return _Either(self, other)

    def optional(self, more: Callable[[OperandPattern], OperandPattern]) -> OperandPattern:
        """`conv.optional(is_op("graph.relu"))`: with the op behind it, or without."""
        return _Either(more(self), self)


@dataclass(frozen=True)
class _Anything(OperandPattern):
    def match(self, value: SSAValue, found: Found) -> bool:
        return True


@dataclass(frozen=True)
class _Constant(OperandPattern):
    def match(self, value: SSAValue, found: Found) -> bool:
        return isinstance(value.owner, ParamOp | ConstantOp)


@dataclass(frozen=True)
class _Either(OperandPattern):
    first: OperandPattern
    second: OperandPattern

    def match(self, value: SSAValue, found: Found) -> bool:
        for one in (self.first, self.second):
            tried: Found = dict(found)
            if one.match(value, tried):
                found.update(tried)
                return True
        return False


@dataclass(frozen=True)
class _Op(OperandPattern):
    names: tuple[str, ...]
    operands: tuple[OperandPattern, ...] | None

    def match(self, value: SSAValue, found: Found) -> bool:
        op = value.owner
        if not isinstance(op, Operation) or op.name not in self.names or len(op.results) != 1:
            return False
        if found and any(use.operation not in found for use in value.uses):
            return False  # somebody else reads it
        found[op] = None
        if self.operands is None:
            return True
        if len(op.operands) != len(self.operands):
            return False
        return all(one.match(v, found) for one, v in zip(self.operands, op.operands, strict=True))


def wildcard() -> OperandPattern:
    """Anything."""
    return _Anything()


def is_constant() -> OperandPattern:
    """A weight or a constant."""
    return _Constant()


def is_op(*names: str) -> Callable[..., OperandPattern]:
    """An op of one of these names, on operands of these shapes; without any: whatever they are."""
    return lambda *operands: _Op(names, operands or None)


@dataclass(frozen=True)
class PatternMatch:
    """The ops that a pattern matched, in order; the last one gives the result."""

    pattern: str
    ops: tuple[Operation, ...]

    @property
    def root(self) -> Operation:
        """The last op."""
        return self.ops[-1]

    def find(self, name: str) -> Operation | None:
        """The op of a name; None if it is not among them."""
        return next((op for op in self.ops if op.name == name), None)


def _always(match: PatternMatch) -> bool:
    return True


@dataclass(frozen=True)
class Pattern:
    """A named shape; `accepts` says of a match whether the compiler takes it (attributes, sizes)."""

    name: str
    shape: OperandPattern
    accepts: Callable[[PatternMatch], bool] = field(default=_always)

    def __post_init__(self) -> None:
        if not isinstance(self.shape, OperandPattern):  # pyright: ignore[reportUnnecessaryIsInstance] callers need not be typed
            remedy = "; call is_op(...) on the operands' shapes, or on nothing" if callable(self.shape) else ""
            raise UserError(f"expected the shape of pattern '{self.name}', but got {self.shape!r:.60}{remedy}")

    def match(self, root: Operation, order: dict[Operation, int]) -> PatternMatch | None:
        """The match whose last op is `root`; `order` numbers the ops of its block."""
        found: Found = {}
        if len(root.results) != 1 or not self.shape.match(root.results[0], found) or root not in found:
            return None
        if any(op not in order for op in found):
            return None
        match = PatternMatch(self.name, tuple(sorted(found, key=lambda op: order[op])))
        return match if self.accepts(match) else None


def first_match(patterns: Sequence[Pattern], root: Operation, order: dict[Operation, int]) -> PatternMatch | None:
    """The match of the first pattern that has one."""
    return next((match for one in patterns if (match := one.match(root, order)) is not None), None)
