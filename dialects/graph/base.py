"""
What all graph ops share: attributes as Python values, type inference as the verifier, one text form.

    op ::= results `=` name operands (`{` attribute (`,` attribute)* `}`)? `:` (type | `(` types `)` `->` types)

The short form, one type, is used when the operand types follow from the result's. An attribute that has its
default value is not printed. Declared attributes are Python values: `op.strides == (2, 2)`.

An op class is one record: its attributes, `kind` (for operator fusion), `layout_rule` (what it does to layouts),
`infer_types`, `evaluate` (its meaning in numpy), `samples` and the `tolerance` constant. The ops are plain
`Operation`s, not IRDL ones: their verifier is type inference, and they are created by the thousand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeAlias, TypeVar, overload

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    TensorType,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute, Operation, OpResult, SSAValue, SSAValues
from xdsl.irdl import traits_def
from xdsl.traits import HasCanonicalizationPatternsTrait, HasFolder, Pure
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph.dims import Dim, SymbolAttr, simplify
from mlc.dialects.graph.types import Tensor, shape_of

if TYPE_CHECKING:
    from xdsl.parser import Parser
    from xdsl.pattern_rewriter import RewritePattern
    from xdsl.printer import Printer

# Fusion kinds; docs: an op of a kind <= BROADCAST maps each output element to the same place of its inputs.
ELEMENTWISE, BROADCAST, INJECTIVE, REDUCTION, OUT_FUSABLE, TUPLE, OPAQUE = 0, 1, 2, 3, 4, 7, 8

MANY = 1 << 30
"""No upper bound of an op's operand count."""

T = TypeVar("T")

AttrValue: TypeAlias = int | float | str | Attribute | Sequence[Dim] | None
"""An op's attribute as a Python value in `Op.make`; also a shape, and an element type or its name (`dtype`)."""


class OpAttr(ABC, Generic[T]):
    """A declared attribute: a Python value in the class's interface, an MLIR attribute in the property dictionary."""

    name: str
    what: ClassVar[str] = "an attribute"

    def __init__(self, default: T | None = None):
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, op: None, owner: type) -> Self: ...
    @overload
    def __get__(self, op: Operation, owner: type) -> T: ...
    def __get__(self, op: Operation | None, owner: type) -> Any:
        if op is None:
            return self
        attribute = op.properties.get(self.name)
        return self.default if attribute is None else self.decode(attribute)

    def __set__(self, op: Operation, value: T) -> None:
        op.properties[self.name] = self.encode(value)

    @abstractmethod
    def encode(self, value: T) -> Attribute:
        """The attribute that holds a Python value."""

    @abstractmethod
    def decode(self, attribute: Any) -> T:
        """The Python value that an attribute holds."""

    @abstractmethod
    def accepts(self, attribute: Attribute) -> bool:
        """Whether `attribute` is of the right class."""

    @abstractmethod
    def parse(self, parser: Parser) -> T:
        """Parse the value after `name =`."""

    def text(self, value: T) -> str:
        """The value as `parse` reads it."""
        return str(value)

    def print(self, printer: Printer, attribute: Attribute) -> None:
        """Print the value as `parse` reads it."""
        printer.print_string(self.text(self.decode(attribute)))


class Int(OpAttr[int]):
    """An integer: `axis = 1`."""

    what = "an integer"

    def encode(self, value: int) -> Attribute:
        return IntegerAttr(int(value), i64)

    def decode(self, attribute: Any) -> int:
        return attribute.value.data

    def accepts(self, attribute: Attribute) -> bool:
        return isinstance(attribute, IntegerAttr)

    def parse(self, parser: Parser) -> int:
        return parser.parse_integer(allow_boolean=False)


class Bool(OpAttr[bool]):
    """`keepdims = true`."""

    what = "true or false"

    def encode(self, value: bool) -> Attribute:
        return IntegerAttr(int(value), i1)

    def decode(self, attribute: Any) -> bool:
        return bool(attribute.value.data)

    def accepts(self, attribute: Attribute) -> bool:
        return isinstance(attribute, IntegerAttr)

    def parse(self, parser: Parser) -> bool:
        return parser.parse_boolean()

    def text(self, value: bool) -> str:
        return "true" if value else "false"


class Float(OpAttr[float]):
    """`epsilon = 1.0e-05`, also `inf`, `-inf` and `nan`."""

    what = "a float"

    def encode(self, value: float) -> Attribute:
        return FloatAttr(float(value), f64)

    def decode(self, attribute: Any) -> float:
        return attribute.value.data

    def accepts(self, attribute: Attribute) -> bool:
        return isinstance(attribute, FloatAttr)

    def parse(self, parser: Parser) -> float:
        sign = -1.0 if parser.parse_optional_punctuation("-") else 1.0
        if (word := parser.parse_optional_keyword_in(("inf", "nan"))) is not None:
            return sign * float(word)
        return sign * float(parser.parse_number())

    def text(self, value: float) -> str:
        digits = repr(float(value))
        mantissa, e, exponent = digits.partition("e")
        return f"{mantissa}.0e{exponent}" if e and "." not in mantissa else digits


class Str(OpAttr[str]):
    """`layout = "NCHW"`."""

    what = "a string"

    def encode(self, value: str) -> Attribute:
        return StringAttr(value)

    def decode(self, attribute: Any) -> str:
        return attribute.data

    def accepts(self, attribute: Attribute) -> bool:
        return isinstance(attribute, StringAttr)

    def parse(self, parser: Parser) -> str:
        return parser.parse_str_literal()

    def text(self, value: str) -> str:
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'


class Ints(OpAttr[tuple[int, ...]]):
    """`strides = [2, 2]`."""

    what = "integers, array<i64: ..>"

    def encode(self, value: Sequence[int]) -> Attribute:
        return DenseArrayBase.from_list(i64, [int(v) for v in value])

    def decode(self, attribute: Any) -> tuple[int, ...]:
        return tuple(attribute.get_values())

    def accepts(self, attribute: Attribute) -> bool:
        return isinstance(attribute, DenseArrayBase) and attribute.elt_type == i64

    def parse(self, parser: Parser) -> tuple[int, ...]:
        items = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False)
        )
        return tuple(items)

    def text(self, value: Sequence[int]) -> str:
        return "[" + ", ".join(map(str, value)) + "]"


class Attr(OpAttr[Attribute]):
    """Any attribute, in its own text form."""

    def encode(self, value: Attribute) -> Attribute:
        return value

    def decode(self, attribute: Any) -> Attribute:
        return attribute

    def accepts(self, attribute: Attribute) -> bool:
        return True

    def parse(self, parser: Parser) -> Attribute:
        return parser.parse_attribute()

    def print(self, printer: Printer, attribute: Attribute) -> None:
        printer.print_attribute(attribute)


@dataclass(frozen=True)
class Sample:
    """
    Operand types and attributes that make a small valid instance of an op; for generated tests.

    Values of the arguments are drawn from `low..high`; `integers` bounds integer operands (indices) instead.
    """

    operands: tuple[Tensor, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    result: Tensor | None = None
    low: float = -2.0
    high: float = 2.0
    integers: tuple[int, int] = (0, 3)


@dataclass(frozen=True)
class _Folds(HasFolder):
    """Folding is the op's own `fold`."""

    @classmethod
    def fold(cls, op: Any) -> Sequence[SSAValue | Attribute] | None:
        return op.fold()


@dataclass(frozen=True)
class _Canonicalizes(HasCanonicalizationPatternsTrait):
    """The patterns stand in `canonicalize`, by op class."""

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        return ()

    def get_patterns(self, op: type[Operation]) -> tuple[RewritePattern, ...]:
        from mlc.dialects.graph.canonicalize import PATTERNS

        return PATTERNS.get(op, ())


class GraphOp(Operation):
    """The base of every graph op; a subclass is the op's one record."""

    kind: ClassVar[int] = OPAQUE
    layout_rule: ClassVar[str] = "fixed"
    """elementwise: any layout, kept; broadcast: the operands' layouts must agree; conv and pool: the op has
    layout attributes; axis: an axis attribute follows the layout; fixed: only the plain layout."""
    arity: ClassVar[tuple[int, int]] = (1, 1)
    tolerance: ClassVar[float] = 0.0
    """c of rtol = c * eps * sqrt(K); 0 says exact."""
    declared: ClassVar[dict[str, OpAttr[Any]]] = {}
    result_given: ClassVar[bool] = False
    """Whether the result type is part of the op (reshape) rather than inferred."""

    traits = traits_def(Pure(), _Folds(), _Canonicalizes())

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = {name: value for name, value in vars(cls).items() if isinstance(value, OpAttr)}
        cls.declared = {**cls.declared, **own}

    def infer_types(self) -> list[Tensor]:
        """The result types that follow from operands and attributes; raises VerifyException."""
        raise VerifyException(f"{self.name} has no type inference")

    def evaluate(self, np: Any, *arrays: Any) -> tuple[Any, ...]:
        """The op's meaning on numpy arrays."""
        raise ValueError(f"{self.name} cannot be evaluated by numpy")

    @classmethod
    def samples(cls) -> list[Sample]:
        """Small valid instances."""
        return []

    def reduction_length(self) -> int:
        """How many terms each result element sums: K of the tolerance."""
        return 1

    @classmethod
    def make(cls, *operands: SSAValue | Operation, result: Tensor | None = None, location: Any = None, **attrs: Any):
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
        op._check_operands()
        types = op.infer_types()
        op.results = SSAValues(OpResult(type, op, i) for i, type in enumerate(types))
        return op

    def operand_types_from(self, result: Tensor, count: int) -> Sequence[Attribute] | None:
        """The types of `count` operands that the short text form implies, given the result's type."""
        return (result,) * count

    def fold(self) -> Sequence[SSAValue] | None:
        """The values that already are the results, where the op does nothing."""
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
            expected = str(low) if low == high else f"{low} to {high}" if high < MANY else f"at least {low}"
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
    """The result types that an op's operands and attributes imply."""
    return op.infer_types()


def given_type(op: GraphOp) -> Tensor:
    """The result type of an op that is given one."""
    if len(op.results) != 1:
        raise VerifyException(f"expected a result type: {op.name} cannot infer it from its operands")
    return op.type


def name_location(location: Any) -> Any:
    """A source name as a location: `"conv1" -> loc("conv1")`; locations and None pass."""
    return NameLoc(StringAttr(location), NoneAttr()) if isinstance(location, str) else location


def location_name(op: Operation) -> str | None:
    """The source name in an op's location, if there is one."""
    return op.location.desc.data if isinstance(op.location, NameLoc) else None


def symbol_divisors(op: Operation) -> dict[str, int]:
    """What divides each symbol of the function around `op`: the steps in its `graph.symbols`."""
    parent: Operation | None = op
    while parent is not None:
        symbols = parent.attributes.get("graph.symbols")
        if isinstance(symbols, DictionaryAttr):
            return {name: s.step.data for name, s in symbols.data.items() if isinstance(s, SymbolAttr)}
        parent = parent.parent_op()
    return {}


def same_type(a: Attribute, b: Attribute, op: Operation) -> bool:
    """Whether two types are equal, given what is known of the symbols around `op`."""
    if not isinstance(a, TensorType) or not isinstance(b, TensorType) or a.element_type != b.element_type:
        return False
    if isinstance(a.encoding, NoneAttr) and isinstance(b.encoding, NoneAttr):
        return False
    left, right = shape_of(a), shape_of(b)
    divisors = symbol_divisors(op)
    return [simplify(s, divisors) for s in left] == [simplify(s, divisors) for s in right]
