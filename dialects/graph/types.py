"""Tensor types of the graph level: element types, sizes (static or symbolic), broadcasting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    MemRefType,
    Signedness,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph.dims import Dim, DimExpr, DimsAttr, UnequalSizes
from mlc.dialects.syntax.recipes.holes import with_sizes

if TYPE_CHECKING:
    import numpy as np

Tensor: TypeAlias = "TensorType[Any]"
Shape: TypeAlias = "tuple[Dim, ...]"
Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
DTypeLike: TypeAlias = "Attribute | str | np.dtype[Any] | type[Any]"
"""An element type: an attribute, a numpy dtype or scalar type, or the name of one."""

_UNSIGNED = {f"uint{bits}": IntegerType(bits, Signedness.UNSIGNED) for bits in (8, 16, 32, 64)}
ELEMENT_TYPES: dict[str, Attribute] = {
    "float32": f32,
    "float64": f64,
    "float16": f16,
    "bfloat16": bf16,
    "bool": i1,
    "int8": i8,
    "int16": i16,
    "int32": i32,
    "int64": i64,
    **_UNSIGNED,
}
"""numpy's name of a dtype -> the element type."""

_DTYPE_NAMES = {element: name for name, element in ELEMENT_TYPES.items()}
FLOATS = (Float32Type, Float64Type, Float16Type, BFloat16Type)


def element_type(dtype: DTypeLike) -> Attribute:
    """The element type of a numpy dtype, its name, or an element type."""
    if isinstance(dtype, Attribute):
        return dtype
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    if name not in ELEMENT_TYPES:
        raise VerifyException(f"expected one of the dtypes {', '.join(ELEMENT_TYPES)}, but got {name}")
    return ELEMENT_TYPES[name]


def dtype_name(element: Attribute) -> str:
    """numpy's name of an element type: `f32 -> float32`."""
    name = _DTYPE_NAMES.get(element)
    if name is None:
        raise VerifyException(f"expected a tensor of floats, integers or booleans, but got elements of {element}")
    return name


def numpy_dtype(element: Attribute) -> np.dtype[Any]:
    """The numpy dtype of an element type."""
    from mlc.support.dtypes import dtype_of

    return dtype_of(dtype_name(element))


def is_float(type: Tensor) -> bool:
    """Whether the elements are floating-point numbers."""
    return isinstance(type.element_type, FLOATS)


def check_value(value: float, type: Tensor) -> None:
    """Raise VerifyException unless the elements of a type can hold a value: integers have no fractions."""
    element = type.element_type
    if not isinstance(element, IntegerType):
        return
    bits = element.width.data
    unsigned = bits == 1 or element.signedness.data == Signedness.UNSIGNED
    low, high = (0, (1 << bits) - 1) if unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)
    # The attribute is an f64: the largest i64 is rounded to 2^63.
    if value != value // 1 or not float(low) <= value <= float(high):
        raise VerifyException(f"expected value to be an element of {type}, {low} to {high}, but got {value:.17g}")


@lru_cache(maxsize=4096)
def _static(shape: tuple[int, ...], element: Attribute) -> Tensor:
    if not shape or min(shape) < 1:
        return TensorType(element, shape)
    made: Any = with_sizes(_example(len(shape), element), shape)
    return made


@lru_cache(maxsize=256)
def _example(rank: int, element: Attribute) -> Tensor:
    """A tensor type of this rank, which others are made from: constructing one costs as much as three ops."""
    return TensorType(element, [1] * rank)


def is_integer(element: Attribute) -> TypeGuard[IntegerType]:
    """Whether an element type is an integer type, i1 included."""
    return isinstance(element, IntegerType)


def tensor(shape: Sequence[Dim], element: Attribute | str = f32) -> Tensor:
    """The tensor type of these sizes; symbolic sizes become `?` with a `#graph.dims` encoding."""
    element = element_type(element)
    shape = tuple(shape)
    if is_static(shape):
        return _static(shape, element)
    symbolic = tuple(size for size in shape if isinstance(size, DimExpr))
    sizes = [DYNAMIC_INDEX if isinstance(size, DimExpr) else size for size in shape]
    return TensorType(element, sizes, DimsAttr(symbolic))


def is_dynamic(type: Attribute) -> bool:
    """Whether a type is a tensor's with a symbolic size."""
    return isinstance(type, TensorType) and not type.has_static_shape()


def shape_of(type: Attribute) -> Shape:
    """The sizes of a tensor type: integers and size expressions."""
    if not isinstance(type, TensorType):
        raise VerifyException(f"expected a tensor, but got {type}")
    sizes = tuple(size.data for size in type.shape.data)
    if DYNAMIC_INDEX not in sizes:
        return sizes
    encoding = type.encoding
    count = sizes.count(DYNAMIC_INDEX)
    if not isinstance(encoding, DimsAttr) or len(encoding.data) != count:
        raise VerifyException(
            f"expected a #graph.dims encoding that names each of the {count} sizes left as '?', but got {type}"
        )
    names = iter(encoding.data)
    return tuple(_as_dim(next(names)) if size == DYNAMIC_INDEX else size for size in sizes)


def _as_dim(expr: DimExpr) -> Dim:
    return expr.evaluate({}) if not expr.terms or not expr.terms[0][0] else expr


def is_static(sizes: Sequence[object]) -> TypeGuard[tuple[int, ...]]:
    """Whether no size is symbolic."""
    return not any(isinstance(size, DimExpr) for size in sizes)


def sizes_at(sizes: Iterable[Dim], values: Mapping[str, int]) -> tuple[int, ...]:
    """Sizes at these values of their symbols; ValueError if a symbol has none."""
    found = tuple(size.evaluate(values) if isinstance(size, DimExpr) else size for size in sizes)
    if not is_static(found):
        raise ValueError(f"expected sizes over {', '.join(values) or 'no symbol'}, but got {list(found)}")
    return found


def static_shape(type: Attribute) -> tuple[int, ...]:
    """The sizes of a tensor type of static shape; VerifyException for symbolic sizes."""
    shape = shape_of(type)
    if not is_static(shape):
        raise VerifyException(f"expected a tensor of static sizes, but got {type}")
    return shape


def element_of(value: SSAValue) -> Any:
    """The element type of a tensor or a buffer."""
    type_ = value.type
    assert isinstance(type_, TensorType | MemRefType)
    return type_.element_type


def tensor_type(type: Attribute) -> Tensor:
    """A type that must be a tensor's."""
    if not isinstance(type, TensorType):
        raise VerifyException(f"expected a tensor, but got {type}")
    return type


def unequal(message: str, *types: tuple[Tensor, Tensor]) -> UnequalSizes:
    """The error for pairs of types that must be equal; an importer may restrict symbols to make them so."""
    shapes = [(shape_of(a), shape_of(b)) for a, b in types]
    return UnequalSizes(message, *(pair for a, b in shapes if len(a) == len(b) for pair in zip(a, b, strict=True)))


def product(sizes: Sequence[Dim]) -> Dim:
    """The product of sizes."""
    result: Dim = 1
    for size in sizes:
        result = result * size
    return result


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """numpy's broadcasting; symbolic sizes must be 1, or provably equal."""
    rank = max(map(len, shapes))
    result: list[Dim] = [1] * rank
    unequal: list[tuple[int, Dim, Dim]] = []
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            if result[axis] == 1:
                result[axis] = size
            elif size != 1 and size != result[axis]:
                unequal.append((axis, result[axis], size))
    if unequal:
        wanted = " and ".join(shape_text(s) for s in shapes)
        axis, one, other = unequal[0]
        raise UnequalSizes(
            f"expected shapes that broadcast together, but got {wanted}: axis {axis} is {one} in one and {other} in "
            "another",
            *((a, b) for _, a, b in unequal),
        )
    return tuple(result)


def shape_text(shape: Sequence[Dim]) -> str:
    """A shape in messages: `1x3xHxW`; a scalar's is `()`."""
    return "x".join(f"({s})" if " " in str(s) else str(s) for s in shape) if shape else "()"


def known_size(size: Dim) -> int:
    """A size; 1 where it is symbolic."""
    return size if isinstance(size, int) else 1


def axis_of(axis: int, rank: int, what: str = "axis") -> int:
    """A possibly negative axis, normalized to `[0, rank)`; VerifyException out of range."""
    if not -rank <= axis < rank:
        raise VerifyException(f"expected {what} in [{-rank}, {rank}) for a tensor of rank {rank}, but got {axis}")
    return axis % rank


def with_symbols(type: Attribute, values: Mapping[str, Dim]) -> Tensor:
    """The tensor type with symbols replaced by sizes."""
    assert isinstance(type, TensorType)
    sizes = [s.evaluate(values) if isinstance(s, DimExpr) else s for s in shape_of(type)]
    return tensor(sizes, type.element_type)


__all__ = [
    "ELEMENT_TYPES",
    "Array",
    "DTypeLike",
    "Dim",
    "Shape",
    "Tensor",
    "axis_of",
    "broadcast",
    "dtype_name",
    "element_of",
    "element_type",
    "is_dynamic",
    "is_float",
    "is_integer",
    "is_static",
    "known_size",
    "numpy_dtype",
    "product",
    "shape_of",
    "shape_text",
    "sizes_at",
    "static_shape",
    "tensor",
    "tensor_type",
    "with_symbols",
]
