"""
Convolution and pooling, written once for every layout: a stage has one axis for each dimension of its layout.

A blocked convolution is the stages "pad" (only where there is padding), and "conv2d" with the axes
n, oc_o, oh, ow, oc_i and the reduction ic_o, kh, kw, ic_i.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import bf16, f32
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.combiner import COMBINERS
from mlc.dialects.graph.dims import Dim
from mlc.dialects.graph.layout import layout
from mlc.dialects.graph.ops import conv as graph
from mlc.dialects.te_builder import builder as te
from mlc.dialects.te_builder.builder import ReduceAxis, Scalar, Tensor
from mlc.lowering.graph_to_te.layouts import axis_names, blocked, logical, widened
from mlc.lowering.graph_to_te.table import lowering, shape_of_result, stage_name
from mlc.targets.cost.windows import leaves_out_rows

OUT = {"C": "oc", "H": "oh", "W": "ow"}


@dataclass(frozen=True)
class WindowGeometry:
    """The geometry of a sliding window over H and W, and the index arithmetic of its taps."""

    kernel: Sequence[Dim]
    strides: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    depthwise: bool = False

    def at(self, axis: int, out: te.IndexExpr, k: ReduceAxis) -> te.IndexExpr:
        """The image index of tap k of window `out`, counted from the start of the padding."""
        return out * self.strides[axis] + k * self.dilation[axis]

    def reach(self, axis: int, count: Dim) -> Dim:
        """The number of rows (columns) that `count` windows span."""
        return (count - 1) * self.strides[axis] + (self.kernel[axis] - 1) * self.dilation[axis] + 1

    def clips_rows(self, size: Dim, count: Dim) -> bool:
        """Whether enough rows of taps lie in the padding that leaving them out of the sums pays; depthwise only."""
        taps, stride, dilation, before = self.kernel[0], self.strides[0], self.dilation[0], self.padding[0]
        if not (self.depthwise and isinstance(size, int) and isinstance(count, int) and isinstance(taps, int)):
            return False
        return leaves_out_rows(size, count, taps, stride, dilation, before)


def pad_stage(x: Tensor, name: str, window: WindowGeometry, out: Sequence[Dim], value: int = 0) -> Tensor:
    """The image padded with a value, as many rows and columns as the windows read; x itself without padding."""
    of = layout(name)
    if not any(window.padding):
        return x
    shape = list(x.shape)
    for axis, letter in enumerate("HW"):
        shape[of.position(letter)] = window.reach(axis, out[axis])

    if value == 0 and (of.position("H"), of.position("W")) == (2, 3) and window.clips_rows(x.shape[2], out[0]):
        x = _padded(x, name, [*x.shape[:3], *shape[3:]], {"W": window.padding[1]}, "pad_columns")
        return _padded(x, name, shape, {"H": window.padding[0]}, "pad")
    return _padded(x, name, shape, {"H": window.padding[0], "W": window.padding[1]}, "pad", value)


def _padded(x: Tensor, name: str, shape: Sequence[Dim], before: dict[str, int], stage: str, value: int = 0) -> Tensor:
    """An image with padding along some axes: `before` has the number of elements in front of it."""
    of = layout(name)

    def body(*i: te.IndexExpr) -> Scalar:
        at, mask = list(i), list[te.IndexExpr]()
        for letter, count in before.items():
            p = of.position(letter)
            at[p] = i[p] - count
            mask += [at[p], x.shape[p] - 1 - at[p]]
        return x.read(at, mask=te.condition(mask), otherwise=value)

    return te.compute(shape, body, stage, axes=axis_names(name, {}), attrs=te.NO_INLINE)


@lowering(graph.Conv2dOp)
def conv2d(op: graph.Conv2dOp, x: Tensor, w: Tensor) -> Tensor:
    """A pad stage if there is padding, then the sum over the window and the input channels of a group."""
    image, kernel = op.logical_sizes()
    shape, out = shape_of_result(op), op.out_layout
    floats = x.element == w.element == f32  # the masks of other sums do not become bounds
    depthwise = op.is_depthwise and floats
    window = WindowGeometry((kernel["H"], kernel["W"]), op.strides, op.padding, op.dilation, depthwise)
    sizes = layout(out).sizes(shape)
    x = pad_stage(x, op.data_layout, window, (sizes["H"], sizes["W"]), op.pad_value)
    groups = image["C"] if op.is_depthwise else op.groups
    channels = channel_axes(op, kernel["I"], groups)
    kh, columns = te.reduce_axis(kernel["H"], "kh"), column_axes(op, kernel["W"])
    reduce = [*channels[:1], kh, *columns, *channels[1:]]

    def body(*i: te.IndexExpr) -> te.Reduction:
        at = logical(out, i)
        ic, kw = _joined(channels), _joined(columns)
        oc = at["C"]
        c = ic if groups == 1 else oc // (kernel["O"] // groups) * kernel["I"] + ic
        source = {"N": at["N"], "C": c, "H": window.at(0, at["H"], kh), "W": window.at(1, at["W"], kw)}
        pixel = x.read(blocked(op.data_layout, _exprs(source)))
        weight = w.read(blocked(op.kernel_layout, _exprs({"O": oc, "I": ic, "H": kh, "W": kw})))
        return te.sum(widened(op, pixel) * widened(op, weight), axis=reduce)

    return te.compute(shape, body, stage_name(op), axes=axis_names(out, OUT), reduce=reduce)


def channel_axes(op: graph.Conv2dOp, count: Dim, groups: Dim) -> list[ReduceAxis]:
    """The reduction axes of a group's input channels: (ic_o, ic_i) in blocked layouts, else (ic); none if depthwise."""
    if count == 1 and groups > 1:
        return []
    block = layout(op.kernel_layout).factors["I"]
    data = layout(op.data_layout).factors["C"]
    if block == 1 and count % data == 0:
        block = data
    if block == 1:
        return [te.reduce_axis(count, "ic")]
    return [te.reduce_axis(count // block, "ic_o"), te.reduce_axis(block, "ic_i")]


def column_axes(op: graph.Conv2dOp, count: Dim) -> list[ReduceAxis]:
    """The reduction axes of a window's columns: (kw_o, kw_i) where the kernel's layout blocks W, else (kw)."""
    block = layout(op.kernel_layout).factors["W"]
    if block == 1:
        return [te.reduce_axis(count, "kw")]
    return [te.reduce_axis(count // block, "kw_o"), te.reduce_axis(block, "kw_i")]


def _joined(axes: Sequence[ReduceAxis]) -> Any:
    """The linear index of an outer and an inner axis."""
    total: Any = 0
    for axis in axes:
        total = total * axis.extent + axis
    return total


def _exprs(axes: dict[str, Any]) -> dict[str, Any]:
    """Integers and reduction axes as index expressions of the stage."""
    stage = te.current_stage()
    return {a: te.IndexExpr(stage, stage.index(e)) for a, e in axes.items()}


def _window_sum(
    op: graph.PoolOp,
    x: Tensor,
    window: WindowGeometry,
    reducer: Callable[..., te.Reduction],
    otherwise: float | int,
    name: str,
) -> Tensor:
    """Each window's taps combined by `reducer`; taps outside of the image read `otherwise`."""
    shape, of = shape_of_result(op), layout(op.layout)
    kh, kw = te.reduce_axis(window.kernel[0], "kh"), te.reduce_axis(window.kernel[1], "kw")

    def body(*i: te.IndexExpr) -> te.Reduction:
        at, mask = list(i), list[te.IndexExpr]()
        for axis, (letter, k) in enumerate((("H", kh), ("W", kw))):
            p = of.position(letter)
            at[p] = window.at(axis, i[p], k) - window.padding[axis]
            mask.append(at[p])
            if op.ceil_mode or window.padding[axis + 2]:
                mask.append(x.shape[p] - 1 - at[p])  # else the number of windows is rounded down to those inside
        return reducer(x.read(at, mask=te.condition(mask), otherwise=otherwise), axis=[kh, kw])

    return te.compute(shape, body, name, axes=axis_names(op.layout, {"H": "oh", "W": "ow"}), reduce=[kh, kw])


def _window(op: graph.PoolOp) -> WindowGeometry:
    return WindowGeometry(tuple(op.pool_size), op.strides, op.padding, op.dilation)


def _max_in_f32(x: Scalar, axis: Sequence[ReduceAxis]) -> te.Reduction:
    return te.max(te.cast(x, f32), axis)


@lowering(graph.MaxPool2dOp)
def max_pool2d(op: graph.MaxPool2dOp, x: Tensor) -> Tensor:
    """The maximum; padding is the lowest value. bf16 is compared in f32."""
    lowest = COMBINERS["max"].identity(x.element)
    if x.element != bf16:
        return _window_sum(op, x, _window(op), te.max, 0 if x.unsigned else lowest, stage_name(op))
    largest = _window_sum(op, x, _window(op), _max_in_f32, lowest, "largest")
    return te.compute(largest.shape, lambda *i: te.cast(largest[i], bf16), stage_name(op))


@lowering(graph.AvgPool2dOp)
def avg_pool2d(op: graph.AvgPool2dOp, x: Tensor) -> Tensor:
    """
    The sum over the window, divided by the number of its taps that count.

    The numbers are stages in front of the sum, so that a sum is divided while it is in registers.
    """
    window, of, shape = _window(op), layout(op.layout), shape_of_result(op)
    places = [of.position(letter) for letter in "HW"]
    counts = [_counts(op, window, axis, x.shape[p], shape[p]) for axis, p in enumerate(places)]
    total = _window_sum(op, x, window, te.sum, 0, "sum")

    def body(*i: te.IndexExpr) -> Scalar:
        scale, constant = None, 1
        for p, count in zip(places, counts, strict=True):
            if isinstance(count, int):
                constant *= count
            else:
                scale = count[i[p]] if scale is None else scale * count[i[p]]
        value = total[i] * (1.0 / constant) if constant != 1 else total[i]
        return value if scale is None else value / scale

    return te.compute(total.shape, body, stage_name(op), axes=axis_names(op.layout, {"H": "oh", "W": "ow"}))


def _counts(op: graph.AvgPool2dOp, window: WindowGeometry, axis: int, size: Dim, out: Dim) -> Tensor | int:
    """The divisor of each window along an axis: one number if all are equal, else a stage that counts the taps."""
    before, after = window.padding[axis], window.padding[axis + 2]
    low, high = (-before, size + after) if op.count_include_pad else (0, size)
    taps = window.kernel[axis]
    assert isinstance(taps, int)

    def inside(o: int) -> int:
        assert isinstance(high, int)
        starts = [o * window.strides[axis] - before + k * window.dilation[axis] for k in range(taps)]
        return max(1, len([s for s in starts if low <= s < high]))

    numbers = {inside(o) for o in range(out)} if isinstance(out, int) and isinstance(size, int) else set[int]()
    if not numbers and low + before <= 0 and _ends_below(window, axis, out, high + before):
        numbers = {taps}
    if len(numbers) == 1:
        return numbers.pop()
    k = te.reduce_axis(taps, "k")

    def body(o: te.IndexExpr) -> te.Reduction:
        at = window.at(axis, o, k) - before
        element = te.cast(k * 0, op.type.element_type)
        return te.sum(te.where(te.condition([at - low, high - 1 - at]), element + 1.0, 0.0), axis=k)

    return te.compute((out,), body, ("rows", "columns")[axis], reduce=[k])


def _ends_below(window: WindowGeometry, axis: int, out: Dim, size: Dim) -> bool:
    """Whether the last tap of the last window lies inside of the padded size, for all values of the symbols."""
    last = (out - 1) * window.strides[axis] + (window.kernel[axis] - 1) * window.dilation[axis]
    try:
        return bool(last < size)
    except VerifyException:
        return False
