"""Which workload of AutoTVM's x86 templates a kernel's te text is: found by the structure of its one contraction."""

from __future__ import annotations

from math import prod

from mlc.dialects import te
from mlc.schedules.analysis import KernelInfo, Read, Stage
from mlc.tuning.records.tvm.workloads import Convolution, MatrixProduct, Workload


def workload_of_kernel(func: te.FuncOp) -> tuple[Workload, tuple[int, int]] | None:
    """
    The workload of a kernel, and the blocks of its layouts: channels of picture and result, or 0 and packed columns.

    None for other kernels: with further stages than a pad, with groups, of open sizes, of other types than f32.
    """
    kernel = KernelInfo(func)
    anchors = [stage for stage in kernel.stages if stage.factors is not None]
    others = [stage for stage in kernel.stages if stage.factors is None]
    if len(anchors) != 1 or any(stage not in kernel.producers(anchors[0]) for stage in others):
        return None
    stage = anchors[0]
    factors = stage.factors
    if factors is None or stage.symbolic or any(str(read.element) != "f32" or read.mask for read in factors):
        return None
    spatial, reduce = stage.num_spatial, len(stage.reduce)
    if spatial == 5 and reduce in (2, 4):
        return _convolution(kernel, stage, factors, is_depthwise=reduce == 2)
    if others or reduce != 1 or spatial not in (2, 3):
        return None
    return _dense(stage, factors) if spatial == 2 else _batch_matmul(stage, factors)


def _convolution(
    kernel: KernelInfo, stage: Stage, factors: tuple[Read, Read], is_depthwise: bool
) -> tuple[Workload, tuple[int, int]] | None:
    """`out[n, o, h, w, oi] = sum x[n, c, h * s + kh * d, w * s + kw * d, ci] * k[o, c, kh, kw, ci, oi]`."""
    picture, weight = factors
    if len(picture.exprs) != 5:
        picture, weight = weight, picture
    if len(picture.exprs) != 5 or len(weight.exprs) < 5 or not all(e.is_affine for e in picture.exprs):
        return None
    batch, out_blocks, rows, columns, outer = stage.extents[:5]
    first = 5 if is_depthwise else 6
    (kh, kw), taps = (first, first + 1), stage.extents[first : first + 2]
    inner = outer if is_depthwise else stage.extents[-1]
    in_channels = (out_blocks if is_depthwise else stage.extents[5]) * inner
    down, across = picture.exprs[2], picture.exprs[3]
    strides = (down.coefficient(2), across.coefficient(3))
    steps = ((down, kh, taps[0]), (across, kw, taps[1]))
    dilation = tuple(e.coefficient(k) if n > 1 else 1 for e, k, n in steps)
    height, width, padding = _padding(kernel, picture)
    found = Convolution(
        batch, in_channels, height, width, out_blocks * outer, (taps[0], taps[1]), strides,
        padding, (dilation[0], dilation[1]), "float32", is_depthwise,
    )  # fmt: skip
    return (found, (inner, outer)) if found.out_sizes == (rows, columns) else None


def _padding(kernel: KernelInfo, picture: Read) -> tuple[int, int, tuple[int, int, int, int]]:
    """The picture's rows and columns without the pad's, and the pad's: top, left, bottom, right."""
    pad = next((s for s in kernel.stages if any(result is picture.tensor for result in s.results)), None)
    if pad is None:
        return picture.shape[2], picture.shape[3], (0, 0, 0, 0)
    (read,) = pad.reads
    zero = dict.fromkeys(range(len(pad.extents)), (0, 0))
    top, left = (-read.exprs[axis].bounds(zero)[0] for axis in (2, 3))
    height, width = read.shape[2:4]
    bottom, right = pad.extents[2] - height - top, pad.extents[3] - width - left
    return height, width, (top, left, max(0, bottom), max(0, right))


def _dense(stage: Stage, factors: tuple[Read, Read]) -> tuple[Workload, tuple[int, int]] | None:
    """`out[i, j] = sum x[i, k] * w[j floordiv 32, k, j mod 32]`."""
    m, n, k = stage.extents
    data, weight = factors if len(factors[0].shape) == 2 else factors[::-1]
    if len(data.shape) != 2 or len(weight.shape) not in (2, 3) or prod(weight.shape) < n * k:
        return None
    return MatrixProduct(m, n, k, "float32"), (0, weight.shape[2] if len(weight.shape) == 3 else 0)


def _batch_matmul(stage: Stage, factors: tuple[Read, Read]) -> tuple[Workload, tuple[int, int]] | None:
    """`out[b, i, j] = sum x[b, i, k] * y[b, k, j]`, either operand transposed."""
    batch, m, n, k = stage.extents
    first, second = factors if factors[0].uses(1) else factors[::-1]
    if len(first.shape) != 3 or len(second.shape) != 3 or not first.uses(1) or not second.uses(2):
        return None
    transposed = first.exprs[2].uses(1), second.exprs[2].uses(3)
    return MatrixProduct(m, n, k, "float32", batch, *transposed), (0, 0)
