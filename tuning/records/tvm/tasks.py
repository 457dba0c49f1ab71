"""
AutoTVM's tasks and configurations as tasks of mlc with values of its knobs, and back.

A template's task is the kernel that mlc has in the layout of the configuration: tile_ic and tile_oc are blocks of the
layouts of picture and weight, tile_x's innermost size is the width of a dense layer's packed weight. What is left of
the configuration are knobs of the strategy:

    tile_ow, tile_y innermost -> tile_rows     tile_x innermost -> tile_lanes
    tile_y middle -> row_part, grid_rows       tile_x middle -> column_part, and grid_columns from it

A knob takes the candidate that is nearest by its ratio. Unrolling (unroll_kw, tile_k, tile_inner) is no knob of mlc's:
its tile is unrolled, its reduction loops are left to LLVM.
"""

from __future__ import annotations

from math import ceil

import numpy as np

from mlc.dialects import te
from mlc.dialects.syntax.source import parse_module
from mlc.frontends.common.model import Model
from mlc.passes.graph.layout.alter_op_layout.records import LAYOUTS
from mlc.support.errors import UserError
from mlc.support.records import KnobValues, RecordKey, answering
from mlc.support.weights import WeightStore
from mlc.targets.target import TargetLike
from mlc.tuning.extract import extract_tasks
from mlc.tuning.records.tvm.log import TvmRecord, costs_of
from mlc.tuning.records.tvm.recognise import workload_of_kernel
from mlc.tuning.records.tvm.tiles import TileSizes, entities_of, tiles_of
from mlc.tuning.records.tvm.workloads import Convolution, MatrixProduct, Workload, index_of, workload_of
from mlc.tuning.results import MeasureResult
from mlc.tuning.space import STRATEGY, KnobValue, Values
from mlc.tuning.task import Task

ANCHORS = ("conv2d", "dense", "batch_matmul")
"""What the names of the kernels of the four templates begin with."""

_MOST_ROWS = 31
"""The rows of a register tile in TVM's default: the largest divisor of the output's columns up to it."""


class _Blocks:
    """A provider that answers the one question about layouts with a configuration's blocks."""

    def __init__(self, tiles: TileSizes, is_convolution: bool) -> None:
        inner = tiles.in_block if is_convolution else 0
        self.values: KnobValues = {STRATEGY: LAYOUTS, "in_blocks": (inner,), "out_blocks": (tiles.lanes,)}

    def best(self, kernel_hash: str, target: str, threads: int) -> KnobValues | None:
        """The blocks: only the layout pass asks while tasks are extracted."""
        return self.values

    def answer(self, key: RecordKey) -> str:
        """Nothing: no cache is in use."""
        return ""

    def note(self, name: str, key: RecordKey) -> str:
        """Nothing."""
        return ""


def task_of_record(record: TvmRecord, target: TargetLike = "native", threads: int = 1) -> tuple[Task, Values] | None:
    """
    The kernel of a record in its layouts, and the values of mlc's knobs; None for a template that mlc does not map.

    Raises UserError for arguments or entities that are not the template's, and for types other than float32.
    """
    workload = workload_of(record)
    if workload is None:
        return None
    if workload.dtype != "float32":
        raise UserError(f"expected a task of float32, but got one of {workload.dtype}")
    tiles = tiles_of(record)
    with answering(_Blocks(tiles, isinstance(workload, Convolution))):
        tasks = extract_tasks(model_of(workload), target, threads, error_growth=0.0)
    task = next(one for one in tasks if one.name.startswith(ANCHORS))
    return task, values_of_tiles(task, workload, tiles)


def record_of_task(task: Task, values: Values, result: MeasureResult, tvm_target: str) -> TvmRecord | None:
    """The record of a candidate as AutoTVM writes it; None for a kernel that is none of the four templates'."""
    func = next(op for op in parse_module(task.kernel, task.name).body.block.ops if isinstance(op, te.FuncOp))
    found = workload_of_kernel(func)
    if found is None:
        return None
    workload, blocks = found
    tiles = tiles_of_values(task, workload, values, blocks)
    entities = entities_of(workload, tiles)
    costs, error = costs_of(result)
    return TvmRecord(
        tvm_target, workload.task, workload.args, entities, index_of(workload, entities), costs, error,
        result.build_seconds + result.run_seconds, result.timestamp, {},
    )  # fmt: skip


def values_of_tiles(task: Task, workload: Workload, tiles: TileSizes) -> dict[str, KnobValue]:
    """The candidate of a task that is nearest to tile sizes: of its first strategy, which is the compiler's choice."""
    part = task.space.parts[0]
    values: dict[str, KnobValue] = {STRATEGY: part.strategy}
    for knob in part.knobs:
        wanted = _wanted(workload, tiles).get(knob.name)
        sizes = [one for one in knob.candidates if isinstance(one, int) and one > 0]
        values[knob.name] = knob.default if wanted is None or not sizes else _nearest(sizes, wanted)
    return values


def _nearest(sizes: list[int], wanted: int) -> int:
    return min(sizes, key=lambda n: max(n / wanted, wanted / n))


def _wanted(workload: Workload, tiles: TileSizes) -> dict[str, int]:
    if isinstance(workload, Convolution):
        return {"tile_rows": tiles.rows, "tile_columns": 1}
    sizes = {"tile_rows": tiles.rows, "tile_lanes": tiles.lanes}
    if workload.batch is None:
        columns = ceil(ceil(workload.n / tiles.lanes) / tiles.column_part)
        sizes |= {"row_part": tiles.row_part, "grid_rows": tiles.row_part}
        sizes |= {"column_part": tiles.column_part, "grid_columns": columns}
    return sizes


def tiles_of_values(task: Task, workload: Workload, values: Values, blocks: tuple[int, int]) -> TileSizes:
    """The tile sizes of a candidate; what it has no knob for is as in TVM's default."""
    part = task.space.part(values)
    defaults: Values = {knob.name: knob.default for knob in part.knobs}

    def size(name: str, otherwise: int) -> int:
        value = values.get(name, defaults.get(name, otherwise))
        return value if isinstance(value, int) and value > 0 else otherwise

    inner, outer = blocks
    if isinstance(workload, Convolution):
        columns = workload.out_sizes[1]
        usual = max(n for n in range(1, min(columns, _MOST_ROWS) + 1) if columns % n == 0)
        return TileSizes(rows=size("tile_rows", usual), lanes=outer, in_block=inner)
    rows, lanes = size("tile_rows", 1), size("tile_lanes", outer or 16)
    if workload.batch is not None:
        return TileSizes(rows=rows, lanes=lanes)
    columns = ceil(workload.n / lanes)
    column_part = size("column_part", ceil(columns / min(size("grid_columns", 1), columns)))
    row_part = size("row_part", size("grid_rows", 1))
    return TileSizes(rows, lanes, row_part=row_part, column_part=column_part, inner=min(rows, 16))


def model_of(workload: Workload) -> Model:
    """A model of the one op."""
    text, shape = _convolution(workload) if isinstance(workload, Convolution) else _product(workload)
    weights = WeightStore()
    if shape is not None:
        weights.add("w", np.ones(shape, np.float32))
    return Model(parse_module(text, "tvm"), weights)


def _convolution(w: Convolution) -> tuple[str, tuple[int, ...]]:
    filters = (w.out_channels, 1 if w.is_depthwise else w.in_channels, *w.kernel)
    x, k = _type((w.batch, w.in_channels, w.height, w.width)), _type(filters)
    y = _type((w.batch, w.out_channels, *w.out_sizes))
    facts = f"strides = {list(w.strides)}, padding = {list(w.padding)}, dilation = {list(w.dilation)}"
    groups = w.in_channels if w.is_depthwise else 1
    return _main(x, k, y, f"graph.conv2d %x, %w {{{facts}, groups = {groups}}}"), filters


def _product(w: MatrixProduct) -> tuple[str, tuple[int, ...] | None]:
    if w.batch is None:
        shape = (w.n, w.k)
        return _main(_type((w.m, w.k)), _type(shape), _type((w.m, w.n)), "graph.dense %x, %w"), shape
    first = _type((w.batch, *((w.k, w.m) if w.transpose_a else (w.m, w.k))))
    second = _type((w.batch, *((w.n, w.k) if w.transpose_b else (w.k, w.n))))
    y = _type((w.batch, w.m, w.n))
    flags = f"transpose_a = {str(w.transpose_a).lower()}, transpose_b = {str(w.transpose_b).lower()}"
    text = f"""func.func @main(%x: {first}, %w: {second}) -> {y} {{
      %0 = graph.batch_matmul %x, %w {{{flags}}} : ({first}, {second}) -> {y}
      return %0 : {y}
    }}"""
    return text, None


def _main(x: str, w: str, y: str, op: str) -> str:
    return f"""func.func @main(%x: {x}) -> {y} {{
      %w = graph.param "w" : {w}
      %0 = {op} : ({x}, {w}) -> {y}
      return %0 : {y}
    }}"""


def _type(shape: tuple[int, ...]) -> str:
    return f"tensor<{'x'.join(map(str, shape))}xf32>"
