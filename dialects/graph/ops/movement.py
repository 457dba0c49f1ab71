"""Ops that move elements and compute nothing."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Self

from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph.base import BROADCAST, INJECTIVE, VARIADIC, AttrValue, GraphOp, Location, Sample, given_type
from mlc.dialects.graph.dims import Dim, UnequalSizes
from mlc.dialects.graph.op_attributes import Float, Int, Ints, Str
from mlc.dialects.graph.types import (
    Array,
    Tensor,
    axis_of,
    broadcast,
    check_value,
    product,
    shape_of,
    shape_text,
    static_shape,
    tensor,
)

END = (1 << 63) - 1
"""The `end` of a slice that extends to the end of its axis."""


class MoveOp(GraphOp):
    """The base of ops whose result elements are elements of an operand."""

    kind = INJECTIVE

    def fold(self) -> Sequence[SSAValue] | None:
        same = len(self.results) == 1 and self.type == self.operands[0].type and self.moves_nothing()
        return (self.operands[0],) if same else None

    def moves_nothing(self) -> bool:
        """Whether the op is the identity, given that its result has the operand's type."""
        return False


class _ShapedOp(MoveOp):
    """The base of ops whose result's shape is given."""

    result_given = True

    @classmethod
    def make(  # pyright: ignore[reportIncompatibleMethodOverride] - it also takes what the result type needs
        cls,
        *operands: SSAValue | Operation | Sequence[Dim],
        shape: Sequence[Dim] | None = None,
        result: Tensor | None = None,
        location: Location = None,
        **attrs: AttrValue,
    ) -> Self:
        """The operand in another shape: `make(x, shape)`, `make(x, shape=shape)` or `make(x, result=type)`."""
        x, *given = operands
        assert isinstance(x, SSAValue | Operation)
        if (sizes := given[0] if given else shape) is not None or result is None:
            type_ = SSAValue.get(x).type
            assert isinstance(type_, TensorType)
            assert not isinstance(sizes, SSAValue | Operation)
            result = tensor(sizes or (), type_.element_type)
        return super().make(x, result=result, location=location, **attrs)


class ReshapeOp(_ShapedOp):
    """
    The elements in the same order in the result's shape.

    `graph.reshape %0 : (tensor<2x6xf32>) -> tensor<3x4xf32>`
    """

    name = "graph.reshape"

    def infer_types(self) -> list[Tensor]:
        (x,) = self.input_types
        result = given_type(self)
        held, wanted = product(shape_of(x)), product(shape_of(result))
        if held != wanted or x.element_type != result.element_type:
            raise UnequalSizes(f"expected a result with the elements of {x}, but got {result}", (held, wanted))
        return [result]

    def moves_nothing(self) -> bool:
        # reshape(x : t) : t == x
        return True

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        return (arrays[0].reshape(static_shape(self.type)),)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample((tensor((2, 6)),), result=tensor((3, 4))), Sample((tensor((4,)),), result=tensor((1, 4, 1)))]


class TransposeOp(MoveOp):
    """
    Axis i of the result is axis `axes[i]` of the operand.

    `graph.transpose %0 {axes = [1, 0]} : (tensor<2x3xf32>) -> tensor<3x2xf32>`
    """

    name = "graph.transpose"
    axes = Ints()

    def infer_types(self) -> list[Tensor]:
        (x,) = self.input_types
        shape = shape_of(x)
        if sorted(self.axes) != list(range(len(shape))):
            raise VerifyException(
                f"expected axes that are a permutation of {list(range(len(shape)))}, but got {list(self.axes)}"
            )
        return [tensor([shape[axis] for axis in self.axes], x.element_type)]

    def moves_nothing(self) -> bool:
        # transpose(x, [0, 1, ..]) == x
        return self.axes == tuple(range(len(self.axes)))

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        return (arrays[0].transpose(self.axes),)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample((tensor((2, 3)),), {"axes": (1, 0)}), Sample((tensor((2, 3, 4)),), {"axes": (2, 0, 1)})]


class BroadcastToOp(_ShapedOp):
    """
    The operand broadcast to the result's shape.

    `graph.broadcast_to %0 : (tensor<3x1xf32>) -> tensor<2x3x4xf32>`
    """

    name = "graph.broadcast_to"
    kind = BROADCAST
    layout_rule = "broadcast"

    def infer_types(self) -> list[Tensor]:
        (x,) = self.input_types
        result = given_type(self)
        if broadcast([shape_of(x), shape_of(result)]) != shape_of(result) or x.element_type != result.element_type:
            raise VerifyException(f"expected a result that {x} broadcasts to, but got {result}")
        return [result]

    def moves_nothing(self) -> bool:
        # broadcast_to(x : t) : t == x
        return True

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        return (np.broadcast_to(arrays[0], static_shape(self.type)),)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample((tensor((3, 1)),), result=tensor((2, 3, 4)))]


class ConcatenateOp(MoveOp):
    """
    The operands concatenated along an axis.

    `graph.concatenate %0, %1 {axis = 1} : (tensor<2x3xf32>, tensor<2x5xf32>) -> tensor<2x8xf32>`
    """

    name = "graph.concatenate"
    layout_rule = "axis"
    arity = (1, VARIADIC)
    axis = Int()

    def infer_types(self) -> list[Tensor]:
        first, *others = self.input_types
        shape = list(shape_of(first))
        axis = axis_of(self.axis, len(shape))
        for other in others:
            sizes = list(shape_of(other))
            ranks = len(sizes) == len(shape) and sizes[:axis] == shape[:axis] and sizes[axis + 1 :] == shape[axis + 1 :]
            if not ranks or other.element_type != first.element_type:
                pairs = zip(shape, sizes, strict=False)
                raise UnequalSizes(
                    f"expected operands that differ on axis {axis} alone, but got {first} and {other}",
                    *(pair for k, pair in enumerate(pairs) if k != axis),
                )
            shape[axis] = shape[axis] + sizes[axis]
        return [tensor(shape, first.element_type)]

    def moves_nothing(self) -> bool:
        # concatenate(x) == x
        return len(self.operands) == 1

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        return (np.concatenate(arrays, axis=self.axis),)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample((tensor((2, 3)), tensor((2, 5)), tensor((2, 1))), {"axis": 1})]


class SliceOp(MoveOp):
    """
    `x[begin:end:stride, ..]`, one of each an axis, as in Python.

    `graph.slice %0 {begin = [0, 1], end = [2, 3], strides = [1, 1]} : (tensor<2x4xf32>) -> tensor<2x2xf32>`
    """

    name = "graph.slice"
    layout_rule = "axis"
    begin = Ints()
    end = Ints()
    strides = Ints()

    def infer_types(self) -> list[Tensor]:
        (x,) = self.input_types
        shape = shape_of(x)
        lengths = (len(self.begin), len(self.end), len(self.strides))
        if set(lengths) != {len(shape)}:
            raise VerifyException(f"expected begin, end and strides of {len(shape)} integers each, but got {lengths}")
        sizes = [_sliced(s, *bounds) for s, *bounds in zip(shape, self.begin, self.end, self.strides, strict=True)]
        return [tensor(sizes, x.element_type)]

    def moves_nothing(self) -> bool:
        # x[:, ..] == x
        return all(stride == 1 for stride in self.strides) and not any(self.begin)

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        x = arrays[0]
        return (x[tuple(self.slices(x.shape))],)

    def slices(self, shape: Sequence[int]) -> list[slice]:
        """Python slices, one an axis."""
        result: list[slice] = []
        for size, begin, end, stride in zip(shape, self.begin, self.end, self.strides, strict=True):
            start, stop, step = slice(begin, end, stride).indices(size)
            result.append(slice(start, stop if stop >= 0 else None, step))
        return result

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample((tensor((4, 6)),), {"begin": (1, 0), "end": (3, END), "strides": (1, 2)}),
            Sample((tensor((5,)),), {"begin": (-1,), "end": (-6,), "strides": (-2,)}),
        ]


def _sliced(size: Dim, begin: int, end: int, stride: int) -> Dim:
    if stride == 0:
        raise VerifyException("expected strides that are not 0, but got 0")
    if isinstance(size, int):
        return len(range(*slice(begin, end, stride).indices(size)))
    if stride < 0:
        raise VerifyException(f"expected a static size for a negative stride, but got {size}")
    first: Dim = begin if begin >= 0 else size + begin
    last: Dim = size if end == END else end if end >= 0 else size + end
    return (last - first + (stride - 1)) // stride


class SplitOp(MoveOp):
    """
    Consecutive parts along an axis, one result each.

    `%a, %b = graph.split %0 {axis = 0, sections = [1, 3]} : (tensor<4xf32>) -> (tensor<1xf32>, tensor<3xf32>)`
    """

    name = "graph.split"
    layout_rule = "axis"
    axis = Int()
    sections = Ints()

    def infer_types(self) -> list[Tensor]:
        (x,) = self.input_types
        shape = list(shape_of(x))
        axis = axis_of(self.axis, len(shape))
        if sum(self.sections) != shape[axis] or min(self.sections, default=0) < 0:
            raise VerifyException(f"expected sections that sum to {shape[axis]}, but got {list(self.sections)}")
        return [tensor([*shape[:axis], size, *shape[axis + 1 :]], x.element_type) for size in self.sections]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        ends = [sum(self.sections[: i + 1]) for i in range(len(self.sections) - 1)]
        return tuple(np.split(arrays[0], ends, axis=self.axis))

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample((tensor((2, 6)),), {"axis": 1, "sections": (1, 3, 2)})]


class PadOp(MoveOp):
    """
    The operand padded; `pad_width` is [before, after] of each axis in turn.

    `graph.pad %0 {pad_width = [0, 0, 1, 2]} : (tensor<2x3xf32>) -> tensor<2x6xf32>`; modes: constant, edge, reflect.
    """

    name = "graph.pad"
    layout_rule = "axis"
    pad_width = Ints()
    mode = Str("constant")
    value = Float(0.0)

    def infer_types(self) -> list[Tensor]:
        (x,) = self.input_types
        shape, width = shape_of(x), self.pad_width
        if len(width) != 2 * len(shape) or min(width, default=0) < 0:
            raise VerifyException(f"expected pad_width of {2 * len(shape)} integers >= 0, but got {list(width)}")
        if self.mode not in ("constant", "edge", "reflect"):
            raise VerifyException(f"expected mode constant, edge or reflect, but got '{self.mode}'")
        if self.mode == "constant":
            check_value(self.value, x)
        for axis, size in enumerate(shape):
            widest = max(width[2 * axis : 2 * axis + 2])
            if (
                self.mode != "constant"
                and widest
                and isinstance(size, int)
                and (size == 0 or (self.mode == "reflect" and widest >= size))
            ):
                raise VerifyException(
                    f"expected less padding than axis {axis} of {shape_text(shape)}, but got {widest}"
                )
        return [tensor([s + width[2 * i] + width[2 * i + 1] for i, s in enumerate(shape)], x.element_type)]

    def moves_nothing(self) -> bool:
        # pad(x, 0) == x
        return not any(self.pad_width)

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        pairs = list(zip(self.pad_width[::2], self.pad_width[1::2], strict=True))
        extra = {"constant_values": self.value} if self.mode == "constant" else {}
        return (np.pad(arrays[0], pairs, mode=self.mode, **extra),)

    @classmethod
    def samples(cls) -> list[Sample]:
        width = {"pad_width": (0, 1, 2, 0)}
        modes = ({"value": 1.5}, {"mode": "edge"}, {"mode": "reflect"})
        return [Sample((tensor((3, 4)),), {**width, **mode}) for mode in modes]


class TakeOp(MoveOp):
    """
    Rows of x along `axis`, chosen by an integer tensor.

    `graph.take %x, %i {axis = 0} :
    (tensor<10x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>`

    Negative indices count from the end; indices out of range are clamped.
    """

    name = "graph.take"
    arity = (2, 2)
    axis = Int(0)

    def infer_types(self) -> list[Tensor]:
        x, indices = self.input_types
        if not isinstance(indices.element_type, IntegerType):
            raise VerifyException(f"expected indices of integers, but got {indices}")
        shape = shape_of(x)
        axis = axis_of(self.axis, len(shape))
        return [tensor((*shape[:axis], *shape_of(indices), *shape[axis + 1 :]), x.element_type)]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        from mlc.dialects.graph.ops.indexing import clamped

        return (np.take(arrays[0], clamped(np, arrays[1], arrays[0].shape[self.axis]), axis=self.axis),)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample((tensor((4, 3)), tensor((2, 2), "int64"))),
            Sample((tensor((2, 5)), tensor((), "int32")), {"axis": 1}),
        ]


class TileOp(MoveOp):
    """
    The operand repeated `reps[i]` times along axis i.

    `graph.tile %0 {reps = [1, 2]} : (tensor<2x3xf32>) -> tensor<2x6xf32>`
    """

    name = "graph.tile"
    kind = BROADCAST
    layout_rule = "fixed"
    reps = Ints()

    def infer_types(self) -> list[Tensor]:
        (x,) = self.input_types
        shape = shape_of(x)
        if len(self.reps) != len(shape) or min(self.reps, default=0) < 0:
            raise VerifyException(f"expected reps of {len(shape)} integers >= 0, but got {list(self.reps)}")
        return [tensor([size * n for size, n in zip(shape, self.reps, strict=True)], x.element_type)]

    def moves_nothing(self) -> bool:
        # tile(x, 1) == x
        return all(n == 1 for n in self.reps)

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        return (np.tile(arrays[0], self.reps),)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample((tensor((2, 3)),), {"reps": (2, 3)})]


class FlipOp(MoveOp):
    """The operand with the order along `axes` reversed: `graph.flip %0 {axes = [0]} : tensor<4xf32>`."""

    name = "graph.flip"
    axes = Ints()

    def infer_types(self) -> list[Tensor]:
        (x,) = self.input_types
        for axis in self.axes:
            axis_of(axis, len(shape_of(x)), "each of the axes")
        return [x]

    def moves_nothing(self) -> bool:
        # flip(x, []) == x
        return not self.axes

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        return (np.ascontiguousarray(np.flip(arrays[0], self.axes)),)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample((tensor((3, 4)),), {"axes": (1,)}), Sample((tensor((3, 4)),), {"axes": (0, -1)})]


OPS: list[type[GraphOp]] = [
    ReshapeOp, TransposeOp, BroadcastToOp, ConcatenateOp, SliceOp, SplitOp, PadOp, TakeOp, TileOp, FlipOp,
]  # fmt: skip
