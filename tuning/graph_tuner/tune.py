"""
The graph tuner: measure kernels and transforms in several layouts, choose over the whole graph, check the whole model.

    with Database("r.db") as database:
        tune_layouts("model.onnx", database)

A layout is kept only where the whole model, compiled with it, is faster than by default for sure, and then
`mlc.records("r.db")` uses it. Kernel-best, in which each kernel takes its fastest layout, is a candidate, too: what is
kept is not slower.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.func import FuncOp

from mlc.dialects.graph import LayoutTransformOp
from mlc.dialects.graph.layout import layout
from mlc.dialects.graph.store import attach_store
from mlc.dialects.graph.types import static_shape
from mlc.dialects.syntax.source import parse_module
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.compile import compile, load_model
from mlc.driver.options import Options
from mlc.driver.pipeline.manager import run_passes
from mlc.frontends.common.model import Model
from mlc.passes.graph.layout.alter_op_layout.records import LAYOUTS, SiteBlocks
from mlc.runtime.executable import Executable
from mlc.support.errors import UserError
from mlc.support.records import KnobValues, RecordKey, chained, given_records
from mlc.support.threads import thread_count
from mlc.support.weights import WeightStore
from mlc.targets.description import describe
from mlc.targets.target import Target, TargetLike, target_text
from mlc.tuning.graph_tuner.layouts import Site, TransformCosts, layout_choices
from mlc.tuning.records.context import Snapshot, SnapshotEntry
from mlc.tuning.records.database import Database
from mlc.tuning.records.record import Comparison
from mlc.tuning.session.whole import compare_calls, random_inputs
from mlc.tuning.space import Part, Space
from mlc.tuning.task import Task

if TYPE_CHECKING:
    from mlc.driver.models.load import Source

_PASS = "graph-alter-op-layout"
_REPEAT = 20
"""Runs of a one-op program; its least time counts."""


@dataclass(frozen=True)
class LayoutReport:
    """What the graph tuner found for a model."""

    values: KnobValues | None
    """The blocks that were kept; None where the default stays."""
    comparison: Comparison | None
    """The whole model with these blocks against the default; of the best candidate where none was kept."""
    predicted: float
    """Seconds of the kernels and transforms of the chosen layouts, by their measurements."""
    predicted_default: float
    predicted_kernel_best: float


@dataclass
class MeasuredCosts:
    """Costs by programs of one op, each measured once."""

    target: str
    threads: int
    known: dict[str, float] = field(default_factory=dict[str, float])

    def kernel(self, site: Site, blocks: SiteBlocks) -> float:
        """The kernels of a program of the one op, compiled with these blocks, without the transforms around it."""
        model = one_op(site)
        values: KnobValues = {"strategy": LAYOUTS, "in_blocks": (blocks.inner,), "out_blocks": (blocks.outer,)}
        return self._measured(f"{model.module} {blocks}", model, _OneAnswer(values))

    def transform(self, shape: tuple[int, ...], source: str, target: str) -> float:
        """The kernel of a program that transforms its input."""
        if source == target:
            return 0.0
        sizes = dict(zip("NCHW", shape, strict=True))
        types = ["x".join(map(str, layout(name).shape(sizes))) for name in (source, target)]
        text = f"""func.func @main(%x: tensor<{types[0]}xf32>) -> tensor<{types[1]}xf32> {{
          %0 = {LayoutTransformOp.name} %x {{src = "{source}", dst = "{target}"}}
            : (tensor<{types[0]}xf32>) -> tensor<{types[1]}xf32>
          return %0 : tensor<{types[1]}xf32>
        }}"""
        return self._measured(text, Model(parse_module(text, "transform"), WeightStore()), None, all_kernels=True)

    def _measured(self, key: str, model: Model, records: _OneAnswer | None, all_kernels: bool = False) -> float:
        if key not in self.known:
            executable = compile(model, self.target, threads=self.threads, records=records or False, cache=False)
            rows = executable.profile(random_inputs(executable) or {}, repeat=_REPEAT)
            counted = [r.seconds for r in rows if all_kernels or not r.kernel.startswith("layout_transform")]
            self.known[key] = sum(counted)
        return self.known[key]


@dataclass(frozen=True)
class _OneAnswer:
    """A provider that answers the question about layouts; kernels have their default schedules."""

    values: KnobValues

    def best(self, kernel_hash: str, target: str, threads: int) -> KnobValues | None:
        """The blocks."""
        return self.values

    def answer(self, key: RecordKey) -> str:
        """Nothing: no cache is in use."""
        return ""

    def note(self, name: str, key: RecordKey) -> str:
        """Nothing."""
        return ""


def one_op(site: Site) -> Model:
    """A model of one convolution or dense layer, with the picture as its input and a weight of random numbers."""
    x, w, y = (str(value.type) for value in (*site.operands, site.results[0]))
    text = f"""func.func @main(%x: {x}, %out: {y}) -> {y} {{
      %w = graph.param "w" : {w}
      return %out : {y}
    }}"""
    module = parse_module(text, "op")
    main = next(op for op in module.body.block.ops if isinstance(op, FuncOp))
    block = main.body.block
    param, end = block.ops
    op = site.clone({site.operands[0]: block.args[0], site.operands[1]: param.results[0]})
    block.insert_op_before(op, end)
    block.args[1].replace_all_uses_with(op.results[0])
    block.erase_arg(block.args[1])
    main.update_function_type()
    weights = WeightStore()
    weights.add("w", np.random.default_rng(0).standard_normal(static_shape(site.operands[1].type)).astype(np.float32))
    return Model(module, weights)


def function_of(model: Source, options: Options) -> FuncOp:
    """@main as graph-alter-op-layout finds it."""
    compilation = Compilation(load_model(model), options)
    module = compilation.model.module
    attach_store(module, compilation.model.weights)
    passes = options.pipeline("graph")
    names = [one.name for one in passes]
    if _PASS not in names:
        raise UserError("expected an optimisation level that chooses layouts, -O 3 or more")
    run_passes(module, compilation.ctx, passes[: names.index(_PASS)])
    return compilation.model.main


def tune_layouts(
    model: Source,
    database: Database,
    target: TargetLike = "native",
    threads: int | None = None,
    costs: TransformCosts | None = None,
) -> LayoutReport:
    """
    Choose the layouts of a model's convolutions and dense layers, and keep them where the model is faster for sure.

    `costs` are those of kernels and transforms, by default measured. Raises UserError for a model that cannot be
    compiled, has open sizes, or has no convolution or dense layer of constant weights.
    """
    name, count = target_text(target), thread_count(threads)
    options = Options(name, threads=count, records=None)
    function = function_of(model, options)
    machine = Target.parse(name)
    choices = layout_choices(function, costs or MeasuredCosts(name, count), machine.lanes("f32"))
    if not choices.sites:
        raise UserError("expected a model with convolutions or dense layers of constant weights")
    task = Task(
        LAYOUTS, f"{LAYOUTS}\n{function}", describe(machine), count, Space((Part(LAYOUTS, ()),)), 0, 1, name
    )  # fmt: skip
    found, default = choices.solve(), [0] * len(choices.sites)
    tried = [one for one in dict.fromkeys([found.choices, choices.kernel_best()]) if any(one)]
    checked = [(values := choices.values(one), _compare(model, task, values)) for one in tried]
    best = max(checked, key=lambda one: one[1].low, default=None)
    kept = best is not None and best[1].low > 1
    if best is not None and kept:
        database.keep(task, *best)
    return LayoutReport(
        best[0] if best is not None and kept else None,
        best[1] if best is not None else None,
        found.cost,
        choices.graph.total(default),
        choices.graph.total(choices.kernel_best()),
    )


def _compare(model: Source, task: Task, values: KnobValues) -> Comparison:
    """The whole model with these blocks against the default, both with the kernels' records in force."""
    here = Snapshot("layouts", {task.key: SnapshotEntry(values, "", LAYOUTS)})
    around = given_records(None)
    shared: dict[str, Any] = {"target": task.compiled_for, "threads": task.threads}
    default: Executable = compile(model, records=around or False, **shared)
    tuned: Executable = compile(model, records=chained([here, around]), **shared)
    inputs: Mapping[str, Any] | None = random_inputs(default)
    if inputs is None:
        raise UserError("expected a model of fixed sizes to tune the layouts of")
    return compare_calls(lambda: default(inputs), lambda: tuned(inputs))
