"""
The workloads of AutoTVM's x86 templates: sizes from a task's arguments and back, and each template's space.

The spaces are those of TVM 0.8, so that a configuration's index is TVM's: divisors in ascending order with the inner
sizes enumerated outermost, `tile_ow` of a convolution over divisors and powers of two in the order of a Python set.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt, prod
from typing import TypeAlias, cast

from mlc.support.errors import UserError
from mlc.tuning.records.tvm.log import Entity, Json, TvmRecord

CONV, DEPTHWISE, DENSE, BATCH = "conv2d_NCHWc.x86", "depthwise_conv2d_NCHWc.x86", "dense_pack.x86", "batch_matmul.x86"

SplitValue: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Convolution:
    """conv2d_NCHWc.x86 and depthwise_conv2d_NCHWc.x86; sizes are of the layouts NCHW and OIHW."""

    batch: int
    in_channels: int
    height: int
    width: int
    out_channels: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    """Top, left, bottom, right."""
    dilation: tuple[int, int]
    dtype: str
    is_depthwise: bool = False

    @property
    def task(self) -> str:
        """The template's name."""
        return DEPTHWISE if self.is_depthwise else CONV

    @property
    def out_sizes(self) -> tuple[int, int]:
        """The output's rows and columns."""
        top, left, bottom, right = self.padding
        size = (self.height + top + bottom, self.width + left + right)
        spans = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]
        rows, columns = ((n - span) // s + 1 for n, span, s in zip(size, spans, self.strides, strict=True))
        return rows, columns

    @property
    def args(self) -> list[Json]:
        """The arguments as TVM writes them."""
        filters = 1 if self.is_depthwise else self.in_channels
        data = ["TENSOR", [self.batch, self.in_channels, self.height, self.width], self.dtype]
        weight = ["TENSOR", [self.out_channels, filters, *self.kernel], self.dtype]
        windows = [list(self.strides), list(self.padding), list(self.dilation)]
        return cast("list[Json]", [data, weight, *windows, "NCHW", "NCHW", self.dtype])

    @property
    def knobs(self) -> dict[str, tuple[str, list[SplitValue] | list[int] | list[bool]]]:
        """The template's entities in order: tag and candidates."""
        rows, columns = self.out_sizes
        split = splits(columns, 2, verbose=not self.is_depthwise)
        last = (
            ("tile_oh", ("ot", [1, 2] if rows > 1 else [1]))
            if self.kernel == (1, 1) and not self.is_depthwise
            else ("unroll_kw", ("ot", [True, False]))
        )
        return {
            "tile_ic": ("sp", splits(self.in_channels, 2)),
            "tile_oc": ("sp", splits(self.out_channels, 2)),
            "tile_ow": ("sp", [one for one in split if one[-1] <= 64]),
            last[0]: last[1],
        }


@dataclass(frozen=True)
class MatrixProduct:
    """dense_pack.x86, `x[m, k] w[n, k]`, and batch_matmul.x86, whose operands may be transposed."""

    m: int
    n: int
    k: int
    dtype: str
    batch: int | None = None
    """The number of products of batch_matmul; None for a dense layer."""
    transpose_a: bool = False
    transpose_b: bool = True

    @property
    def task(self) -> str:
        """The template's name."""
        return DENSE if self.batch is None else BATCH

    @property
    def args(self) -> list[Json]:
        """The arguments as TVM writes them."""
        if self.batch is None:
            tensors = [["TENSOR", [self.m, self.k], self.dtype], ["TENSOR", [self.n, self.k], self.dtype]]
            return cast("list[Json]", [*tensors, None, self.dtype])
        first = [self.k, self.m] if self.transpose_a else [self.m, self.k]
        second = [self.n, self.k] if self.transpose_b else [self.k, self.n]
        tensors = [["TENSOR", [self.batch, *sizes], self.dtype] for sizes in (first, second)]
        out = [self.batch, self.m, self.n]
        return cast("list[Json]", [*tensors, out, self.dtype, self.transpose_a, self.transpose_b])

    @property
    def knobs(self) -> dict[str, tuple[str, list[SplitValue] | list[int] | list[bool]]]:
        """The template's entities in order: tag and candidates."""
        if self.batch is not None:
            return {name: ("sp", splits(size, 2)) for name, size in zip(_TILES, (self.m, self.n, self.k), strict=True)}
        return {
            "tile_y": ("sp", splits(self.m, 3)),
            "tile_x": ("sp", splits(self.n, 3)),
            "tile_k": ("sp", splits(self.k, 2)),
            "tile_inner": ("sp", [one for one in splits(self.m, 2) if one[-1] <= 16]),
        }


Workload: TypeAlias = Convolution | MatrixProduct
_TILES = ("tile_y", "tile_x", "tile_k")


def splits(extent: int, parts: int, verbose: bool = False) -> list[SplitValue]:
    """The splits of an axis as TVM enumerates them: (-1, middle sizes, innermost), the innermost changing slowest."""
    factors = _divisors(extent)
    if verbose:  # powers of two leave a rest; TVM takes them in the order of a set
        factors = list(set(factors) | {1 << n for n in range(extent.bit_length())})
    found: list[SplitValue] = []

    def extend(inner: tuple[int, ...]) -> None:
        if len(inner) == parts - 1:
            size = prod(inner)
            if size <= extent and (extent % size == 0 or (verbose and size < extent)):
                found.append((-1, *reversed(inner)))
            return
        for factor in factors:
            extend((*inner, factor))

    extend(())
    return found


def _divisors(number: int) -> list[int]:
    return sorted({part for n in range(1, isqrt(number) + 1) if number % n == 0 for part in (n, number // n)})


def index_of(workload: Workload, entities: tuple[Entity, ...]) -> int:
    """The number of a configuration; UserError where it is none of the template's."""
    given = {name: value for name, _, value in entities}
    index, weight = 0, 1
    for name, (_, candidates) in workload.knobs.items():
        value = given.get(name)
        plain = (-1, *cast("list[int]", value)[1:]) if isinstance(value, list) else value
        if plain not in candidates:
            raise UserError(f"expected entity '{name}' of {workload.task} among its candidates, but got {value!r}")
        index += weight * cast("list[object]", candidates).index(plain)
        weight *= len(candidates)
    return index


def workload_of(record: TvmRecord) -> Workload | None:
    """
    The sizes of a record's task; None for a template that mlc does not map.

    Raises UserError for arguments that are not that template's.
    """
    read = {CONV: _convolution, DEPTHWISE: _convolution, DENSE: _dense, BATCH: _batch_matmul}.get(record.task)
    if read is None:
        return None
    try:
        return read(record)
    except (IndexError, TypeError, ValueError) as error:
        raise UserError(f"expected the arguments of {record.task}, but got {record.args!r}") from error


def _convolution(record: TvmRecord) -> Convolution:
    is_depthwise = record.task == DEPTHWISE
    (data, dtype), (weight, _) = map(_tensor, record.args[:2])
    if len(data) == 5 and len(weight) == 6:  # blocked already
        data = [data[0], data[1] * data[4], *data[2:4]]
        weight = [weight[0] * weight[5], weight[1] * weight[4], *weight[2:4]]
    batch, channels, height, width = data
    filters, depth, *kernel = weight
    if is_depthwise and (depth != 1 or filters != channels):
        raise ValueError("a multiplier of channels")
    if not is_depthwise and depth != channels:
        raise ValueError("groups")
    strides, padding, dilation = (_numbers(one) for one in record.args[2:5])
    if len(padding) == 2:
        padding = [*padding, *padding]
    return Convolution(
        batch, channels, height, width, filters, _pair(kernel), _pair(strides),
        (padding[0], padding[1], padding[2], padding[3]), _pair(dilation), dtype, is_depthwise,
    )  # fmt: skip


def _dense(record: TvmRecord) -> MatrixProduct:
    (data, dtype), (weight, _) = map(_tensor, record.args[:2])
    if len(weight) == 3:  # packed already: N / b, K, b
        weight = [weight[0] * weight[2], weight[1]]
    (m, k), (n, depth) = data, weight
    if depth != k:
        raise ValueError("sizes that do not match")
    return MatrixProduct(m, n, k, dtype)


def _batch_matmul(record: TvmRecord) -> MatrixProduct:
    (first, dtype), (second, _) = map(_tensor, record.args[:2])
    transposed = [one for one in record.args[2:] if isinstance(one, bool)] or [False, True]
    (batch, *rest), (other, *others) = first, second
    m, k = reversed(rest) if transposed[0] else rest
    n, depth = others if transposed[1] else reversed(others)
    if depth != k or other not in (1, batch):
        raise ValueError("sizes that do not match")
    return MatrixProduct(m, n, k, dtype, batch, transposed[0], transposed[1])


def _tensor(argument: Json) -> tuple[list[int], str]:
    kind, shape, dtype = cast("tuple[str, list[int], str]", argument)
    if kind != "TENSOR":
        raise ValueError("no tensor")
    return [int(n) for n in shape], str(dtype)


def _numbers(argument: Json) -> list[int]:
    if isinstance(argument, int):
        return [argument, argument]
    return [int(cast(int, n)) for n in cast("list[Json]", argument)]


def _pair(numbers: list[int]) -> tuple[int, int]:
    first, second = numbers
    return first, second
