"""Reductions, softmax and normalisations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, ClassVar, TypeAlias

from xdsl.dialects.builtin import i64
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph.base import OPAQUE, OUT_FUSABLE, REDUCTION, GraphOp, Sample
from mlc.dialects.graph.op_attributes import Bool, Float, Int, Ints
from mlc.dialects.graph.types import (
    Array,
    Dim,
    Tensor,
    axis_of,
    is_float,
    known_size,
    product,
    shape_of,
    shape_text,
    tensor,
    unequal,
)


class ReduceOp(GraphOp):
    """The base of the reductions over axes."""

    kind = REDUCTION
    layout_rule = "axis"
    axes = Ints()
    keepdims = Bool(False)
    meaning: ClassVar[Callable[..., Any]]
    gives_index: ClassVar[bool] = False

    def infer_types(self) -> list[Tensor]:
        (x,) = self.input_types
        shape = shape_of(x)
        axes = self.reduced_axes
        if self.gives_index and len(axes) != 1:
            raise VerifyException(f"expected one axis, but got {len(axes)}")
        kept: list[Dim] = []
        for axis, size in enumerate(shape):
            if axis not in axes:
                kept.append(size)
            elif self.keepdims:
                kept.append(1)
        return [tensor(kept, i64 if self.gives_index else x.element_type)]

    @property
    def reduced_axes(self) -> tuple[int, ...]:
        """The axes, each in [0, rank), in order."""
        rank = len(shape_of(self.operands[0].type))
        axes = sorted(axis_of(axis, rank, "each of the axes") for axis in self.axes)
        if len(set(axes)) != len(axes):
            raise VerifyException(f"expected axes that differ, but got {list(self.axes)}")
        return tuple(axes)

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        axes: Any = self.reduced_axes
        return (type(self).meaning(np, arrays[0], axes[0] if self.gives_index else axes, self.keepdims),)

    def reduction_length(self) -> int:
        sizes = shape_of(self.operands[0].type)
        return known_size(product([sizes[axis] for axis in self.reduced_axes]))

    @classmethod
    def samples(cls) -> list[Sample]:
        result = [
            Sample((tensor((2, 3, 4)),), {"axes": (1,), "keepdims": True}),
            Sample((tensor((5, 7)),), {"axes": (-1,)}),
        ]
        many = Sample((tensor((2, 3, 4)),), {"axes": (0, 2)})
        return result if cls.gives_index else [*result, many]


ReduceMeaning: TypeAlias = Callable[[ModuleType, Array, int | tuple[int, ...], bool], Array]


def _reduction(name: str, formula: str, meaning: ReduceMeaning, c: float = 0.0, index: bool = False) -> dict[str, Any]:
    to = "tensor<2xi64>" if index else "tensor<2xf32>"
    return {
        "__doc__": f"{formula} over `axes`: `%1 = graph.{name} %0 {{axes = [1]}} : (tensor<2x3xf32>) -> {to}`.",
        "__module__": __name__,
        "name": f"graph.{name}",
        "meaning": staticmethod(meaning),
        "tolerance": c,
        "gives_index": index,
    }


SumOp = type(
    "SumOp",
    (ReduceOp,),
    _reduction("sum", "The sum", lambda np, x, a, k: np.sum(x, axis=a, keepdims=k, dtype=x.dtype), 2),
)
MeanOp = type(
    "MeanOp", (ReduceOp,), _reduction("mean", "The mean", lambda np, x, a, k: np.mean(x, axis=a, keepdims=k), 2)
)
MaxOp = type("MaxOp", (ReduceOp,), _reduction("max", "The maximum", lambda np, x, a, k: np.max(x, axis=a, keepdims=k)))
MinOp = type("MinOp", (ReduceOp,), _reduction("min", "The minimum", lambda np, x, a, k: np.min(x, axis=a, keepdims=k)))
ProdOp = type(
    "ProdOp",
    (ReduceOp,),
    _reduction("prod", "The product", lambda np, x, a, k: np.prod(x, axis=a, keepdims=k, dtype=x.dtype), 2),
)
ArgmaxOp = type(
    "ArgmaxOp",
    (ReduceOp,),
    _reduction(
        "argmax", "The index of the (first) maximum", lambda np, x, a, k: np.argmax(x, axis=a, keepdims=k), index=True
    ),
)
ArgminOp = type(
    "ArgminOp",
    (ReduceOp,),
    _reduction(
        "argmin", "The index of the (first) minimum", lambda np, x, a, k: np.argmin(x, axis=a, keepdims=k), index=True
    ),
)


class SoftmaxOp(GraphOp):
    """`exp(x - max x) / sum exp(x - max x)` along an axis: `graph.softmax %0 {axis = 1} : tensor<2x10xf32>`."""

    name = "graph.softmax"
    kind = OUT_FUSABLE
    layout_rule = "axis"
    tolerance = 8.0
    axis = Int(-1)

    def infer_types(self) -> list[Tensor]:
        (x,) = self.input_types
        if not is_float(x):
            raise VerifyException(f"expected operand to have floating-point elements, but got {x}")
        axis_of(self.axis, len(shape_of(x)))
        return [x]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        from mlc.dialects.graph.numerics import log_softmax, softmax

        return ((log_softmax if isinstance(self, LogSoftmaxOp) else softmax)(arrays[0], self.axis),)

    def reduction_length(self) -> int:
        return known_size(shape_of(self.operands[0].type)[self.axis])

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample((tensor((3, 10)),)), Sample((tensor((2, 5, 3)),), {"axis": 1})]


class LogSoftmaxOp(SoftmaxOp):
    """The logarithm of softmax, without overflow: `graph.log_softmax %0 {axis = 1} : tensor<2x10xf32>`."""

    name = "graph.log_softmax"


class LayerNormOp(GraphOp):
    """
    `(x - mean) / sqrt(var + epsilon) * gamma + beta` over the axes from `axis` on.

    `graph.layer_norm %x, %g, %b {axis = -1} : (tensor<2x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<2x64xf32>`.
    """

    name = "graph.layer_norm"
    kind = OPAQUE
    arity = (3, 3)
    tolerance = 8.0
    axis = Int(-1)
    epsilon = Float(1e-5)

    def infer_types(self) -> list[Tensor]:
        x, gamma, beta = self.input_types
        shape = shape_of(x)
        wanted = tensor(shape[axis_of(self.axis, len(shape)) :], x.element_type)
        if gamma != wanted or beta != wanted:
            message = f"expected gamma and beta of type {wanted}, but got {gamma} and {beta}"
            raise unequal(message, (gamma, wanted), (beta, wanted))
        return [x]

    def operand_types_from(self, result: Tensor, count: int) -> Sequence[Any] | None:
        shape = shape_of(result)
        vector = tensor(shape[axis_of(self.axis, len(shape)) :], result.element_type)
        return (result, vector, vector)

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        x, gamma, beta = arrays
        axes = tuple(range(axis_of(self.axis, x.ndim), x.ndim))
        return (_normalize(np, x, axes, self.epsilon) * gamma + beta,)

    def reduction_length(self) -> int:
        shape = shape_of(self.operands[1].type)
        return known_size(product(shape))

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample((tensor((3, 8)), tensor((8,)), tensor((8,)))),
            Sample((tensor((2, 3, 4)), tensor((3, 4)), tensor((3, 4))), {"axis": 1}),
        ]


def _normalize(np: ModuleType, x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    centred = x - x.mean(axis=axes, keepdims=True)
    variance = (centred * centred).mean(axis=axes, keepdims=True)
    return centred / np.sqrt(variance + epsilon)


class BatchNormOp(GraphOp):
    """
    `(x - mean) / sqrt(var + epsilon) * gamma + beta`, four vectors along `axis`.

    `graph.batch_norm %x, %g, %b, %m, %v : tensor<1x8x4x4xf32>`
    """

    name = "graph.batch_norm"
    kind = OUT_FUSABLE
    layout_rule = "axis"
    arity = (5, 5)
    tolerance = 8.0
    epsilon = Float(1e-5)
    axis = Int(1)

    def infer_types(self) -> list[Tensor]:
        x, *vectors = self.input_types
        _check_channels(x, vectors, self.axis, ("gamma", "beta", "mean", "var"))
        return [x]

    def operand_types_from(self, result: Tensor, count: int) -> Sequence[Any] | None:
        return _with_vectors(result, self.axis, 4)

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        x, gamma, beta, mean, var = (arrays[0], *(_along(a, self.axis, arrays[0].ndim) for a in arrays[1:]))
        return ((x - mean) / np.sqrt(var + self.epsilon) * gamma + beta,)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample((tensor((2, 3, 4, 4)), *(tensor((3,)),) * 4), low=0.5)]


class InstanceNormOp(GraphOp):
    """
    `(x - mean) / sqrt(var + epsilon) * gamma + beta` of each image's channel.

    `graph.instance_norm %x, %g, %b : tensor<1x8x4x4xf32>`
    """

    name = "graph.instance_norm"
    kind = OUT_FUSABLE
    arity = (3, 3)
    tolerance = 8.0
    epsilon = Float(1e-5)

    def infer_types(self) -> list[Tensor]:
        x, *vectors = self.input_types
        _check_channels(x, vectors, 1, ("gamma", "beta"))
        return [x]

    def operand_types_from(self, result: Tensor, count: int) -> Sequence[Any] | None:
        return _with_vectors(result, 1, 2)

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        x = arrays[0]
        gamma, beta = (_along(a, 1, x.ndim) for a in arrays[1:])
        return (_normalize(np, x, tuple(range(2, x.ndim)), self.epsilon) * gamma + beta,)

    def reduction_length(self) -> int:
        return known_size(product(shape_of(self.operands[0].type)[2:]))

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample((tensor((2, 3, 4, 5)), tensor((3,)), tensor((3,))))]


def _check_channels(x: Tensor, vectors: Sequence[Tensor], axis: int, names: Sequence[str]) -> None:
    shape = shape_of(x)
    wanted = tensor((shape[axis_of(axis, len(shape))],), x.element_type)
    for name, vector in zip(names, vectors, strict=True):
        if vector != wanted:
            message = f"expected {name} of type {wanted} for axis {axis} of {shape_text(shape)}, but got {vector}"
            raise unequal(message, (vector, wanted))


def _with_vectors(result: Tensor, axis: int, count: int) -> tuple[Any, ...]:
    shape = shape_of(result)
    return (result, *(tensor((shape[axis_of(axis, len(shape))],), result.element_type),) * count)


def _along(vector: Array, axis: int, rank: int) -> Array:
    shape = [1] * rank
    shape[axis] = -1
    return vector.reshape(shape)


OPS: list[type[GraphOp]] = [
    SumOp, MeanOp, MaxOp, MinOp, ProdOp, ArgmaxOp, ArgminOp,
    SoftmaxOp, LogSoftmaxOp, LayerNormOp, BatchNormOp, InstanceNormOp,
]  # fmt: skip
