"""Bugs of rewrites of graphs: ops that are dropped, duplicated, swapped, or get a wrong attribute."""

from collections.abc import Iterator
from random import Random

import numpy as np
from operators import Change, mutation, replace, replace_by, same_types, swap_operands, wrapped
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from mlc.dialects import graph as g
from mlc.dialects.graph.base import GraphOp
from mlc.dialects.graph.types import is_float, shape_of

ACTIVATIONS = (
    g.ReluOp, g.TanhOp, g.SigmoidOp, g.ErfOp, g.ClipOp, g.LeakyReluOp, g.HardSigmoidOp, g.EluOp, g.ExpOp,
    g.SqrtOp, g.RsqrtOp, g.NegOp, g.AbsOp,
)  # fmt: skip
NON_COMMUTATIVE = (g.SubtractOp, g.DivideOp, g.PowerOp, g.LessOp, g.GreaterOp, g.DenseOp, g.BatchMatmulOp)
SOURCES = (g.ParamOp, g.ConstantOp, g.FullOp, g.IotaOp)


def static(value: SSAValue) -> tuple[int, ...] | None:
    """A tensor's shape, if all its sizes are numbers."""
    shape = shape_of(value.type)
    return tuple(int(n) for n in shape if isinstance(n, int)) if all(isinstance(n, int) for n in shape) else None


def fits(op: Operation, **attributes: object) -> Change | None:
    """A change of attributes, if the result's type stays the same; else None."""
    assert isinstance(op, GraphOp)
    changed = op.clone()
    try:
        for name, value in attributes.items():
            setattr(changed, name, value)
        same = changed.infer_types() == [r.type for r in op.results]
    except (VerifyException, ValueError, IndexError, ZeroDivisionError):
        same = False
    finally:
        changed.erase()

    def change() -> None:
        for name, value in attributes.items():
            setattr(op, name, value)

    return change if same else None


def some(*changes: Change | None) -> Iterator[Change]:
    """The changes that apply."""
    yield from (change for change in changes if change is not None)


# --- ops that are dropped or duplicated ---------------------------------------------------------------------------


@mutation("graph")
def dropped_activation(op: Operation, random: Random) -> Iterator[Change]:
    """An elementwise function is left out."""
    if isinstance(op, ACTIVATIONS):
        yield lambda: replace(op, op.operands[0])


@mutation("graph")
def duplicated_op(op: Operation, random: Random) -> Iterator[Change]:
    """An elementwise op is applied twice."""
    if not isinstance(op, g.AddOp | g.MultiplyOp | g.SubtractOp | g.BiasAddOp | g.TanhOp | g.SigmoidOp | g.ExpOp):
        return
    if op.operands[0].type != op.type:
        return

    def change() -> None:
        again = type(op).make(op.result, *op.operands[1:], **{n: getattr(op, n) for n in op.declared})
        block = op.parent
        assert block is not None
        block.insert_op_after(again, op)
        op.result.replace_uses_with_if(again.result, lambda use: use.operation is not again)

    yield change


@mutation("graph")
def lost_residual(op: Operation, random: Random) -> Iterator[Change]:
    """One of the two summands of a residual connection is lost."""
    if isinstance(op, g.AddOp) and same_types(op):
        for value in op.operands:
            if not isinstance(value.owner, SOURCES):
                yield lambda value=value: replace(op, value)


@mutation("graph")
def lost_mask(op: Operation, random: Random) -> Iterator[Change]:
    """A mask, by `where` or by adding a large negative number, is lost."""
    if isinstance(op, g.WhereOp):
        for value in op.operands[1:]:
            if value.type == op.type:
                yield lambda value=value: replace(op, value)
    elif isinstance(op, g.AddOp | g.MultiplyOp) and op.operands[0].type == op.type:
        if op.operands[1].type != op.type and len(shape_of(op.operands[1].type)) == len(shape_of(op.type)):
            yield lambda: replace(op, op.operands[0])


@mutation("graph")
def dropped_bias(op: Operation, random: Random) -> Iterator[Change]:
    """The addition of a bias is left out."""
    if isinstance(op, g.BiasAddOp | g.AddOp) and op.operands[0].type == op.type and not same_types(op):
        yield lambda: replace(op, op.operands[0])


@mutation("graph")
def dropped_cast(op: Operation, random: Random) -> Iterator[Change]:
    """A cast to a narrower type and back is left out, as if both rounded nothing."""
    inner = op.operands[0].owner if isinstance(op, g.CastOp) else None
    if isinstance(inner, g.CastOp) and inner.operands[0].type == op.results[0].type:
        source = inner.operands[0]
        yield lambda: replace(op, source)


@mutation("graph")
def dropped_transpose(op: Operation, random: Random) -> Iterator[Change]:
    """A transposition is taken for a reshape."""
    if isinstance(op, g.TransposeOp) and is_moved(op):
        yield lambda: replace_by(op, g.ReshapeOp.make(op.operands[0], result=op.type))


def is_moved(op: g.TransposeOp) -> bool:
    """Whether a transposition changes the order of axes that are longer than 1."""
    shape = shape_of(op.operands[0].type)
    kept = [axis for axis in op.axes if shape[axis] != 1]
    return kept != sorted(kept)


# --- operands ---------------------------------------------------------------------------------------------------------


@mutation("graph")
def swapped_operands(op: Operation, random: Random) -> Iterator[Change]:
    """The operands of an op that does not commute are exchanged."""
    if isinstance(op, NON_COMMUTATIVE) and same_types(op):
        yield lambda: swap_operands(op)


@mutation("graph")
def swapped_scalar(op: Operation, random: Random) -> Iterator[Change]:
    """`c - x` for `x - c`, `c / x` for `x / c`: operands are exchanged that broadcast."""
    if isinstance(op, g.SubtractOp | g.DivideOp) and not same_types(op) and op.operands[0] is not op.operands[1]:
        yield lambda: swap_operands(op)


@mutation("graph")
def swapped_branches(op: Operation, random: Random) -> Iterator[Change]:
    """The two values of a selection are exchanged."""
    if isinstance(op, g.WhereOp):
        yield lambda: swap_operands(op, 1, 2)


@mutation("graph")
def wrong_concat_order(op: Operation, random: Random) -> Iterator[Change]:
    """Two operands of a concatenation are exchanged."""
    if isinstance(op, g.ConcatenateOp):
        for k in range(len(op.operands) - 1):
            if same_types(op, k, k + 1):
                yield lambda k=k: swap_operands(op, k, k + 1)


@mutation("graph")
def wrong_split_part(op: Operation, random: Random) -> Iterator[Change]:
    """Two parts of a split are exchanged."""
    if isinstance(op, g.SplitOp):
        for a, b in zip(op.results, op.results[1:], strict=False):
            if a.type == b.type:

                def change(a: SSAValue = a, b: SSAValue = b) -> None:
                    first, second = list(a.uses), list(b.uses)
                    for use in first:
                        use.operation.operands[use.index] = b
                    for use in second:
                        use.operation.operands[use.index] = a

                yield change


@mutation("graph")
def merged_values(op: Operation, random: Random) -> Iterator[Change]:
    """Two ops of one kind with different operands are taken for the same expression."""
    if not isinstance(op, GraphOp) or isinstance(op, SOURCES) or len(op.results) != 1 or op.parent is None:
        return
    before = op.prev_op
    for _ in range(40):
        if before is None:
            return
        alike = type(before) is type(op) and before.properties == op.properties
        if alike and before.results[0].type == op.type and list(before.operands) != list(op.operands):
            yield lambda before=before: replace(op, before.results[0])
            return
        before = before.prev_op


@mutation("graph")
def stale_constant(op: Operation, random: Random) -> Iterator[Change]:
    """An op reads another weight of the same type: an entry of before a rewrite."""
    if not isinstance(op, g.ParamOp | g.ConstantOp) or op.parent is None:
        return
    others = [o for o in op.parent.ops if type(o) is type(op) and o is not op and o.results[0].type == op.type]
    others = [o for o in others if o.properties != op.properties]
    if others:
        other = random.choice(others)
        yield lambda: op.properties.update(other.properties)


@mutation("graph")
def transposed_weight(op: Operation, random: Random) -> Iterator[Change]:
    """A square weight is read transposed."""
    if isinstance(op, g.DenseOp | g.BatchMatmulOp):
        shape = shape_of(op.operands[1].type)
        if len(shape) >= 2 and shape[-1] == shape[-2] and shape[-1] != 1:
            axes = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
            yield lambda: wrapped(op, 1, g.TransposeOp.make(op.operands[1], axes=axes))


@mutation("graph")
def flipped_kernel(op: Operation, random: Random) -> Iterator[Change]:
    """A convolution for a correlation: the kernel is read backwards."""
    if isinstance(op, g.Conv2dOp) and op.kernel_layout.startswith("OIHW"):
        for axis in (2, 3):
            if shape_of(op.operands[1].type)[axis] != 1:
                yield lambda axis=axis: wrapped(op, 1, g.FlipOp.make(op.operands[1], axes=[axis]))


@mutation("graph")
def wrong_broadcast(op: Operation, random: Random) -> Iterator[Change]:
    """The first element of a broadcast vector is taken for a scalar."""
    if not isinstance(op, g.AddOp | g.MultiplyOp | g.SubtractOp | g.BiasAddOp | g.DivideOp):
        return
    for index, value in enumerate(op.operands):
        shape = static(value)
        if shape and max(shape) > 1 and value.type != op.type:

            def change(index: int = index, value: SSAValue = value, shape: tuple[int, ...] = shape) -> None:
                ones = [1] * len(shape)
                first = g.SliceOp.make(value, begin=[0] * len(shape), end=ones, strides=ones)
                wide = g.BroadcastToOp.make(first.result, result=value.type)
                wrapped(op, index, first, wide)

            yield change


# --- attributes --------------------------------------------------------------------------------------------------


@mutation("graph")
def off_by_one_padding(op: Operation, random: Random) -> Iterator[Change]:
    """A row or column of padding is on the wrong side."""
    if isinstance(op, g.Conv2dOp | g.MaxPool2dOp | g.AvgPool2dOp | g.Conv2dTransposeOp) and len(op.padding) == 4:
        for k in (0, 1):
            for d in (1, -1):
                padding = list(op.padding)
                padding[k], padding[k + 2] = padding[k] + d, padding[k + 2] - d
                if min(padding) >= 0:
                    yield from some(fits(op, padding=padding))


@mutation("graph")
def wrong_axis(op: Operation, random: Random) -> Iterator[Change]:
    """An axis is off by one."""
    if isinstance(op, g.ReduceOp):
        for k, axis in enumerate(op.axes):
            for new in (axis - 1, axis + 1):
                yield from some(fits(op, axes=[*op.axes[:k], new, *op.axes[k + 1 :]]))
    elif isinstance(op, g.SoftmaxOp | g.BiasAddOp | g.TakeOp | g.GatherElementsOp | g.CumulativeOp | g.ArgsortOp):
        rank = len(shape_of(op.operands[0].type))
        axis = op.axis % rank if rank else 0
        for new in {(axis + 1) % max(rank, 1), (axis - 1) % max(rank, 1)} - {axis}:
            yield from some(fits(op, axis=new))


@mutation("graph")
def wrong_permutation(op: Operation, random: Random) -> Iterator[Change]:
    """Two axes of one size are exchanged in a transposition."""
    if isinstance(op, g.TransposeOp):
        axes, shape = list(op.axes), shape_of(op.operands[0].type)
        for i in range(len(axes)):
            for j in range(i):
                if shape[axes[i]] == shape[axes[j]] != 1:
                    swapped = list(axes)
                    swapped[i], swapped[j] = axes[j], axes[i]
                    yield from some(fits(op, axes=swapped))


@mutation("graph")
def wrong_epsilon(op: Operation, random: Random) -> Iterator[Change]:
    """The epsilon of a norm is another one."""
    if isinstance(op, g.LayerNormOp | g.BatchNormOp | g.InstanceNormOp):
        for epsilon in (0.1, 1e-2):
            yield from some(fits(op, epsilon=epsilon))


@mutation("graph")
def wrong_dilation(op: Operation, random: Random) -> Iterator[Change]:
    """A dilated window is taken for a dense one, or the other way round, with the padding that keeps the size."""
    if isinstance(op, g.Conv2dOp | g.MaxPool2dOp):
        padding, (h, w) = list(op.padding), op.dilation
        for new in (1, 2):
            if (h, w) != (new, new) and len(padding) == 4:
                sizes = window(op)
                grow = [(new - d) * (n - 1) for d, n in zip((h, w), sizes, strict=True)]
                before = [grow[0] // 2, grow[1] // 2]
                wide = [
                    p + d for p, d in zip(padding, [*before, grow[0] - before[0], grow[1] - before[1]], strict=True)
                ]
                if min(wide) >= 0 and max(grow) != 0:
                    yield from some(fits(op, dilation=(new, new), padding=wide))


def window(op: GraphOp) -> tuple[int, int]:
    """The height and the width of a kernel or of a pool's window."""
    if isinstance(op, g.PoolOp):
        return op.pool_size[0], op.pool_size[1]
    shape = static(op.operands[1]) or (1, 1, 1, 1)
    return (shape[2], shape[3]) if len(shape) >= 4 else (1, 1)


@mutation("graph")
def wrong_stride(op: Operation, random: Random) -> Iterator[Change]:
    """A strided convolution is taken for the first rows and columns of a dense one."""
    if isinstance(op, g.Conv2dOp | g.MaxPool2dOp | g.AvgPool2dOp) and max(op.strides) > 1 and static(op.result):

        def change() -> None:
            shape = static(op.result) or ()
            dense = type(op).make(*op.operands, **{n: getattr(op, n) for n in op.declared} | {"strides": (1, 1)})
            first = g.SliceOp.make(dense.result, begin=[0] * len(shape), end=shape, strides=[1] * len(shape))
            replace_by(op, dense, first)

        yield change


@mutation("graph")
def wrong_reduction(op: Operation, random: Random) -> Iterator[Change]:
    """A reduction of another kind: a sum for a mean, a minimum for a maximum."""
    other = {g.SumOp: g.MeanOp, g.MeanOp: g.SumOp, g.MaxOp: g.MinOp, g.MinOp: g.MaxOp, g.ProdOp: g.SumOp}
    if type(op) in other:
        assert isinstance(op, g.ReduceOp)
        new = other[type(op)]
        yield lambda: replace_by(op, new.make(op.operands[0], axes=op.axes, keepdims=op.keepdims))
    elif isinstance(op, g.MaxPool2dOp | g.AvgPool2dOp) and is_float(op.type):
        kind = g.AvgPool2dOp if isinstance(op, g.MaxPool2dOp) else g.MaxPool2dOp
        yield lambda: replace_by(op, kind.make(op.operands[0], **{n: getattr(op, n) for n in g.PoolOp.declared}))


@mutation("graph")
def wrong_clip_bound(op: Operation, random: Random) -> Iterator[Change]:
    """A bound of a clip is half as large, or missing."""
    if isinstance(op, g.ClipOp):
        for name in ("min", "max"):
            value = getattr(op, name)
            if np.isfinite(value):
                yield from some(fits(op, **{name: value / 2 if value else -1.0}))
                yield from some(fits(op, **{name: -np.inf if name == "min" else np.inf}))


@mutation("graph")
def wrong_slope(op: Operation, random: Random) -> Iterator[Change]:
    """The slope of an activation has its default value."""
    if isinstance(op, g.LeakyReluOp | g.EluOp | g.HardSigmoidOp):
        yield from some(fits(op, alpha=op.alpha * 2))


@mutation("graph")
def wrong_slice_offset(op: Operation, random: Random) -> Iterator[Change]:
    """A slice begins one element too early or too late."""
    shape = static(op.operands[0]) if isinstance(op, g.SliceOp) else None
    if isinstance(op, g.SliceOp) and shape:
        for k, size in enumerate(shape):
            for d in (-1, 1):
                begin, end = op.begin[k] + d, op.end[k] + d
                if 0 <= begin and end <= size and op.strides[k] > 0:
                    at = slice(k, k + 1)
                    begins, ends = list(op.begin), list(op.end)
                    begins[at], ends[at] = [begin], [end]
                    yield from some(fits(op, begin=begins, end=ends))


@mutation("graph")
def wrong_pool_divisor(op: Operation, random: Random) -> Iterator[Change]:
    """An average counts the padding where it must not, or the other way round."""
    if isinstance(op, g.AvgPool2dOp) and any(op.padding):
        yield from some(fits(op, count_include_pad=not op.count_include_pad))


@mutation("graph")
def wrong_pad(op: Operation, random: Random) -> Iterator[Change]:
    """Padding of another value, or on the other side."""
    if isinstance(op, g.PadOp):
        if op.mode == "constant":
            yield from some(fits(op, value=op.value + 1 if np.isfinite(op.value) else 0.0))
        half = len(op.pad_width) // 2
        if op.pad_width[:half] != op.pad_width[half:]:
            yield from some(fits(op, pad_width=[*op.pad_width[half:], *op.pad_width[:half]]))


@mutation("graph")
def wrong_resize(op: Operation, random: Random) -> Iterator[Change]:
    """A resize with the coordinates of another convention."""
    if isinstance(op, g.Resize2dOp):
        for coordinates in {"half_pixel", "asymmetric", "align_corners"} - {op.coordinates}:
            yield from some(fits(op, coordinates=coordinates))


@mutation("graph")
def wrong_scale(op: Operation, random: Random) -> Iterator[Change]:
    """A constant factor is another one."""
    if (
        isinstance(op, g.ConstantOp)
        and is_float(op.type)
        and any(isinstance(use.operation, g.MultiplyOp | g.DivideOp) for use in op.result.uses)
    ):
        factor = random.choice((0.5, 2.0, 1.1))
        value = np.asarray(op.array())

        def change() -> None:
            op.value = g.ConstantOp.make((value * factor).astype(value.dtype)).value

        yield change


@mutation("graph")
def wrong_comparison(op: Operation, random: Random) -> Iterator[Change]:
    """A comparison the wrong way round."""
    other = {g.LessOp: g.GreaterEqualOp, g.GreaterOp: g.LessEqualOp, g.LessEqualOp: g.GreaterOp}
    other |= {g.GreaterEqualOp: g.LessOp, g.EqualOp: g.LessEqualOp, g.MaximumOp: g.MinimumOp, g.MinimumOp: g.MaximumOp}
    if type(op) in other:
        yield lambda: replace_by(op, other[type(op)].make(*op.operands))


@mutation("graph")
def wrong_function(op: Operation, random: Random) -> Iterator[Change]:
    """An elementwise function in the place of a similar one."""
    other = {g.FloorOp: g.CeilOp, g.CeilOp: g.FloorOp, g.RoundOp: g.FloorOp, g.SigmoidOp: g.HardSigmoidOp}
    other |= {g.ReluOp: g.AbsOp, g.TanhOp: g.SigmoidOp, g.SqrtOp: g.RsqrtOp, g.RsqrtOp: g.SqrtOp, g.ErfOp: g.TanhOp}
    if type(op) in other:
        yield lambda: replace_by(op, other[type(op)].make(op.operands[0]))


@mutation("graph")
def swapped_norm_parameters(op: Operation, random: Random) -> Iterator[Change]:
    """Scale and bias of a norm are exchanged."""
    if (
        isinstance(op, g.LayerNormOp | g.BatchNormOp | g.InstanceNormOp)
        and len(op.operands) >= 3
        and same_types(op, 1, 2)
    ):
        yield lambda: swap_operands(op, 1, 2)


@mutation("graph", "scaled")
def unstable_softmax(op: Operation, random: Random) -> Iterator[Change]:
    """A softmax without the subtraction of the maximum, which overflows."""
    if type(op) is g.SoftmaxOp:

        def change() -> None:
            rank = len(shape_of(op.type))
            power = g.ExpOp.make(op.operands[0])
            total = g.SumOp.make(power.result, axes=[op.axis % rank], keepdims=True)
            replace_by(op, power, total, g.DivideOp.make(power.result, total.result))

        yield change


@mutation("graph")
def shifted_indices(op: Operation, random: Random) -> Iterator[Change]:
    """A table is read one row too late."""
    if isinstance(op, g.TakeOp | g.GatherElementsOp | g.LookupOp):
        k, axis = (1, 0) if isinstance(op, g.LookupOp) else (0, op.axis)
        shape = static(op.operands[k])
        if shape and shape[axis] > 1:

            def change() -> None:
                zeros, ones = [0] * len(shape), [1] * len(shape)
                first, rest = list(shape), list(zeros)
                first[axis], rest[axis] = 1, 1
                head = g.SliceOp.make(op.operands[k], begin=zeros, end=first, strides=ones)
                tail = g.SliceOp.make(op.operands[k], begin=rest, end=shape, strides=ones)
                wrapped(op, k, head, tail, g.ConcatenateOp.make(tail.result, head.result, axis=axis % len(shape)))

            yield change


__all__ = ["SOURCES", "fits", "some", "static"]
