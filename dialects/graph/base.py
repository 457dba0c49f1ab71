"""
The base of all graph ops: attributes as Python values, type inference as the verifier, one text form.

    op ::= results `=` name operands (`{` attribute (`,` attribute)* `}`)? `:` (type | `(` types `)` `->` types)

The short form with one type is used when the operand types follow from the result's. Attributes with their default
value are not printed. Declared attributes are Python values: `op.strides == (2, 2)`.

An op class declares its attributes (op_attributes.py; operators of your own import them from here), `kind` (for
operator fusion), `layout_rule` (for layout conversion), `infer_types`, `evaluate` (its numpy semantics), `samples` and
the `tolerance` constant. The ops are plain `Operation`s, not IRDL ones: type inference is their verifier, and `make`
avoids the cost of IRDL construction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, overload

from xdsl.dialects.builtin import (
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation, OpResult, SSAValue, SSAValues
from xdsl.irdl import traits_def
from xdsl.traits import HasCanonicalizationPatternsTrait, HasFolder, Pure
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph.dims import Dim, simplify
from mlc.dialects.graph.op_attributes import Attr as Attr
from mlc.dialects.graph.op_attributes import Bool as Bool
from mlc.dialects.graph.op_attributes import Float as Float
from mlc.dialects.graph.op_attributes import Int as Int
from mlc.dialects.graph.op_attributes import Ints as Ints
from mlc.dialects.graph.op_attributes import OpAttr as OpAttr
from mlc.dialects.graph.op_attributes import Str as Str
from mlc.dialects.graph.symbols import symbols_around
from mlc.dialects.graph.types import Array, Tensor, shape_of

if TYPE_CHECKING:
    from xdsl.parser import Parser
    from xdsl.pattern_rewriter import RewritePattern
    from xdsl.printer import Printer

# Fusion kinds, as TVM's OpPatternKind: with a kind <= BROADCAST, an output element reads one element per input.
ELEMENTWISE, BROADCAST, INJECTIVE, REDUCTION, OUT_FUSABLE, TUPLE, OPAQUE = 0, 1, 2, 3, 4, 7, 8

_LAYOUT_RULES = {ELEMENTWISE: "elementwise", BROADCAST: "broadcast"}
"""Fusion kind -> the layout rule of an op class that has this kind and declares no rule."""

VARIADIC = 1 << 30
"""The upper bound of the operand count of a variadic op."""

Location: TypeAlias = "str | LocationAttr | None"
"""The source of an op: the name of the model's node, or a location."""

AttrValue: TypeAlias = int | float | str | Attribute | Sequence[Dim] | None
"""The Python value of an attribute in `Op.make`; also sizes (`shape`) and the name of an element type (`dtype`)."""


@dataclass(frozen=True)
class Sample:
    """
    Operand types and attributes of a small valid instance of an op, for generated tests.

    Float operands are drawn from `low..high`, integer operands (such as indices) from the range `integers`.
    """

    operands: tuple[Tensor, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    result: Tensor | None = None
    low: float = -2.0
    high: float = 2.0
    integers: tuple[int, int] = (0, 3)


@dataclass(frozen=True)
class _Folds(HasFolder):
    """The folder of graph ops: calls the op's method `fold`."""

    @classmethod
    def fold(cls, op: Operation) -> Sequence[SSAValue | Attribute] | None:
        assert isinstance(op, GraphOp)
        return op.fold()


@dataclass(frozen=True)
class _Canonicalizes(HasCanonicalizationPatternsTrait):
    """The canonicalization patterns of graph ops: `canonicalize.PATTERNS`, by op class."""

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        return ()

    def get_patterns(self, op: type[Operation]) -> tuple[RewritePattern, ...]:
        from mlc.dialects.graph.canonicalize import PATTERNS

        return PATTERNS.get(op, ())


class GraphOp(Operation):
    """The base of every graph op."""

    kind: ClassVar[int] = OPAQUE
    layout_rule: ClassVar[str] = "fixed"
    """How layout conversion treats the op. elementwise: any layout, which the result keeps; broadcast: the operands'
    layouts must agree, and they broadcast by numpy's rules; conv and pool: the op has layout attributes; axis: an axis
    attribute is remapped; fixed: only the plain layout. A class that does not say it has its `kind`'s: elementwise,
    broadcast, or else fixed."""
    arity: ClassVar[tuple[int, int]] = (1, 1)
    rounds: ClassVar[bool] = False
    """Whether its kernel computes in f64 and rounds the result to its type, as wide arithmetic then does, too."""
    tolerance: ClassVar[float] = 0.0
    """The error constant c of rtol = c * eps * sqrt(K); 0 for exact ops."""
    declared: ClassVar[dict[str, OpAttr[Any]]] = {}
    result_given: ClassVar[bool] = False
    """Whether the result type is given (as for reshape) rather than inferred."""

    traits = traits_def(Pure(), _Folds(), _Canonicalizes())

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        own: dict[str, OpAttr[Any]] = {name: value for name, value in vars(cls).items() if isinstance(value, OpAttr)}
        cls.declared = {**cls.declared, **own}
        if "kind" in vars(cls) and "layout_rule" not in vars(cls):
            cls.layout_rule = _LAYOUT_RULES.get(cls.kind, GraphOp.layout_rule)

    def infer_types(self) -> list[Tensor]:
        """The result types that follow from operands and attributes; raises VerifyException."""
        raise VerifyException(f"{self.name} has no type inference")

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        """The op's results on numpy arrays; `np` is the numpy module."""
        raise ValueError(f"{self.name} cannot be evaluated by numpy")

    @classmethod
    def samples(cls) -> list[Sample]:
        """Small valid instances."""
        return []

    def reduction_length(self) -> int:
        """The number of terms that each result element sums: K of the tolerance."""
        return 1

    @classmethod
    def make(
        cls,
        *operands: SSAValue | Operation,
        result: Tensor | None = None,
        location: Location = None,
        **attrs: AttrValue,
    ):
        """An op on `operands` with inferred result types: `Conv2dOp.make(x, w, strides=(2, 2))`."""
        unknown = attrs.keys() - cls.declared.keys()
        if unknown:
            raise TypeError(
                f"{cls.name} has no attribute {', '.join(sorted(unknown))}; it has: {', '.join(cls.declared)}"
            )
        properties = {
            name: d.encode(attrs[name] if name in attrs else d.default)
            for name, d in cls.declared.items()
            if name in attrs or d.default is not None
        }
        op = cls.create(
            operands=[SSAValue.get(operand) for operand in operands],
            properties=properties,
            result_types=() if result is None else (result,),
            location=name_location(location),
        )
        try:
            op._check_operands()
            types = op.infer_types()
        except Exception:
            op.drop_all_references()  # an op that does not exist must not count as a reader of its operands
            raise
        op.results = SSAValues(OpResult(type, op, i) for i, type in enumerate(types))
        return op

    def operand_types_from(self, result: Tensor, count: int) -> Sequence[Attribute] | None:
        """The types of `count` operands, inferred from the result's type; None if the short text form is ambiguous."""
        return (result,) * count

    def fold(self) -> Sequence[SSAValue] | None:
        """Existing values that replace the results, if the op is an identity; else None."""
        return None

    @property
    def input_types(self) -> tuple[Tensor, ...]:
        """The operands' types."""
        types: Any = self.operand_types
        return types

    @property
    def shapes(self) -> list[tuple[Any, ...]]:
        """The operands' shapes; sizes are integers or expressions."""
        return [shape_of(operand.type) for operand in self._operands]

    @property
    def result(self) -> OpResult:
        """The (first) result."""
        return self.results[0]

    @property
    def type(self) -> Tensor:
        """The type of the (first) result."""
        result: Any = self.results[0].type
        return result

    def _check_operands(self) -> None:
        low, high = self.arity
        count = len(self._operands)
        if not low <= count <= high:
            expected = str(low) if low == high else f"{low} to {high}" if high < VARIADIC else f"at least {low}"
            raise VerifyException(f"expected {expected} operands, but got {count}")
        for index, operand in enumerate(self._operands):
            if not isinstance(operand.type, TensorType):
                raise VerifyException(f"expected operand {index} to be a tensor, but got {operand.type}")

    def _check_attributes(self) -> None:
        for name, d in self.declared.items():
            attribute = self.properties.get(name)
            if attribute is None:
                if d.default is None:
                    raise VerifyException(f"expected an attribute '{name}'")
            elif not d.accepts(attribute):
                raise VerifyException(f"expected '{name}' to be {d.what}, but got {attribute}")
        for name in self.properties:
            if name not in self.declared:
                raise VerifyException(f"unknown property '{name}'; the op has: {', '.join(self.declared) or 'none'}")

    def verify_(self) -> None:
        """Operand count and classes, attributes, and the declared result types against the inferred ones."""
        self._check_operands()
        self._check_attributes()
        for type in self.input_types:
            shape_of(type)
        inferred = self.infer_types()
        declared = [result.type for result in self.results]
        if len(inferred) != len(declared):
            raise VerifyException(f"expected {len(inferred)} results, but got {len(declared)}")
        for index, (a, b) in enumerate(zip(inferred, declared, strict=True)):
            if a != b and not same_type(a, b, self):
                which = "" if len(declared) == 1 else f" {index}"
                raise VerifyException(f"expected result{which} of type {a}, which its operands imply, but got {b}")

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        from mlc.dialects.graph.syntax import parse_op

        return parse_op(cls, parser)

    def print(self, printer: Printer) -> None:
        from mlc.dialects.graph.syntax import print_op

        print_op(self, printer)


def infer(op: GraphOp) -> list[Tensor]:
    """The result types inferred from an op's operands and attributes."""
    return op.infer_types()


def given_type(op: GraphOp) -> Tensor:
    """The result type that an op was given; VerifyException if it has none."""
    if len(op.results) != 1:
        raise VerifyException(f"expected a result type: {op.name} cannot infer it from its operands")
    return op.type


@overload
def name_location(location: str) -> NameLoc: ...
@overload
def name_location(location: Location) -> LocationAttr | None: ...
def name_location(location: Location) -> LocationAttr | None:
    """A source name as a location: `"conv1" -> loc("conv1")`; locations and None are returned unchanged."""
    return NameLoc(StringAttr(location), NoneAttr()) if isinstance(location, str) else location


def location_name(op: Operation) -> str | None:
    """The source name in an op's location, if there is one."""
    return op.location.desc.data if isinstance(op.location, NameLoc) else None


def symbol_divisors(op: Operation) -> dict[str, int]:
    """A divisor of each symbol of the function that encloses `op`: the steps in its `graph.symbols`."""
    return {name: symbol.step.data for name, symbol in symbols_around(op).items()}


def same_type(a: Attribute, b: Attribute, op: Operation) -> bool:
    """Whether two types are equal under the declared divisors of the symbols around `op`."""
    if not isinstance(a, TensorType) or not isinstance(b, TensorType) or a.element_type != b.element_type:
        return False
    if isinstance(a.encoding, NoneAttr) and isinstance(b.encoding, NoneAttr):
        return False
    left, right = shape_of(a), shape_of(b)
    divisors = symbol_divisors(op)
    return [simplify(s, divisors) for s in left] == [simplify(s, divisors) for s in right]
