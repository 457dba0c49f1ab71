"""
The graph tuner: measure kernels and transforms in several layouts, choose over the whole graph, check the whole model.

    with Database("r.db") as database:
        tune_layouts("model.onnx", database)

A layout is kept only where the whole model, compiled with it, is faster than by default for sure, and then
`mlc.records("r.db")` uses it. Kernel-best, in which each kernel takes its fastest layout, is measured in turns with the
graph's choice, which gives way to it where it is surely slower.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from xdsl.dialects.func import FuncOp

from mlc.dialects.graph import LayoutTransformOp
from mlc.dialects.graph.layout import layout
from mlc.dialects.graph.store import attach_store
from mlc.dialects.graph.types import static_shape
from mlc.dialects.syntax.source import parse_module
from mlc.driver.models.bind_sizes import copied
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.compile import compile, load_model
from mlc.driver.options import Options
from mlc.driver.pipeline.manager import run_passes
from mlc.frontends.common.model import Model
from mlc.passes.graph.layout.alter_op_layout.records import LAYOUTS, SiteBlocks, sites_of
from mlc.runtime.executable import Executable
from mlc.support.errors import UserError
from mlc.support.records import KnobValues, chained, given_records
from mlc.support.threads import thread_count
from mlc.support.weights import WeightStore
from mlc.targets.description import describe
from mlc.targets.target import Target, TargetLike, target_text
from mlc.tuning.extract import options_of
from mlc.tuning.graph_tuner.layouts import LayoutChoices, Site, TransformCosts, layout_choices
from mlc.tuning.graph_tuner.report import LayoutReport
from mlc.tuning.records.context import Snapshot, SnapshotEntry
from mlc.tuning.records.database import Database
from mlc.tuning.records.record import Comparison
from mlc.tuning.session.confirm import no_change
from mlc.tuning.session.watch import Watcher
from mlc.tuning.session.whole import compare_calls, random_inputs
from mlc.tuning.space import Part, Space
from mlc.tuning.task import Task

if TYPE_CHECKING:
    from mlc.driver.models.load import Source

    Sizes: TypeAlias = tuple[Any, Any]
    """The `shapes` and `symbols` of mlc.compile."""

Choice: TypeAlias = tuple[int, ...]
"""The number of the alternative that each site takes."""

_PASS = "graph-alter-op-layout"
_REPEAT = 20
"""Runs of a one-op program; its least time counts."""


@dataclass
class MeasuredCosts:
    """Costs by programs of one op, each measured once."""

    target: str
    threads: int
    known: dict[str, float] = field(default_factory=dict[str, float])
    told: Watcher = field(default_factory=Watcher)
    """Hears how many programs were measured."""

    def kernel(self, site: Site, blocks: SiteBlocks) -> float:
        """The kernels of a program of the one op, compiled with these blocks, without the transforms around it."""
        model = one_op(site)
        values: KnobValues = {"strategy": LAYOUTS, "in_blocks": (blocks.inner,), "out_blocks": (blocks.outer,)}
        function = function_of(one_op(site), Options(self.target, threads=self.threads, records=None))
        key = _task(function, self.target, self.threads).key
        records = Snapshot(LAYOUTS, {key: SnapshotEntry(values, "", LAYOUTS)})
        return self._measured(f"{model.module} {blocks}", model, records)

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

    def _measured(self, key: str, model: Model, records: Snapshot | None, all_kernels: bool = False) -> float:
        if key not in self.known:
            executable = compile(model, self.target, threads=self.threads, records=records or False, cache=False)
            rows = executable.profile(random_inputs(executable) or {}, repeat=_REPEAT)
            counted = [r.seconds for r in rows if all_kernels or not r.kernel.startswith("layout_transform")]
            self.known[key] = sum(counted)
            self.told.phase(f"measuring layouts: {len(self.known)} programs", 0, 0)
        return self.known[key]


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


def function_of(model: Source, options: Options, sizes: Sizes = (None, None)) -> FuncOp:
    """@main as graph-alter-op-layout finds it, with the shapes and symbols of mlc.compile."""
    compilation = Compilation(copied(load_model(model, *sizes)), options)
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
    watcher: Watcher | None = None,
    **given: Any,
) -> LayoutReport:
    """
    Choose the layouts of a model's convolutions and dense layers, and keep them where the model is faster for sure.

    `costs` are those of kernels and transforms, by default measured; `given` are options of mlc.compile that change
    kernels. Raises UserError for a model that cannot be compiled, has open sizes, or has no convolution or dense layer
    of constant weights.
    """
    name, count = target_text(target), thread_count(threads)
    kernels = {key: value for key, value in given.items() if key not in ("shapes", "symbols", "cache")}
    options = replace(options_of(name, count, kernels), records=None)
    function = function_of(model, options, (given.get("shapes"), given.get("symbols")))
    if not sites_of(function):
        raise UserError("expected a model with convolutions or dense layers of constant weights")
    programs = _Programs(model, _task(function, name, count), given)
    measured = costs or MeasuredCosts(name, count, told=watcher or Watcher())
    choices = layout_choices(function, measured, Target.parse(name).lanes("f32"))
    found = choices.solve()
    proposed = found.choices, choices.kernel_best()
    values, comparison, is_kept = keep_if_faster(database, programs, choices, proposed)
    return LayoutReport(
        values if is_kept else None,
        comparison,
        found.cost,
        len(choices.sites),
        programs.task,
    )


def withdraw(database: Database, report: LayoutReport) -> None:
    """Put the default layouts back in force."""
    if report.comparison is not None:
        database.keep(report.task, _default_values(report.sites), no_change(report.comparison))


def _default_values(sites: int) -> KnobValues:
    """A record that leaves all blocks to the pass."""
    return {"strategy": LAYOUTS, "in_blocks": (0,) * sites, "out_blocks": (0,) * sites}


def _task(function: FuncOp, target: str, threads: int) -> Task:
    """What the record of a function's layouts is found by, as a task without a choice."""
    text, space = f"{LAYOUTS}\n{function}", Space((Part(LAYOUTS, ()),))
    return Task(LAYOUTS, text, describe(Target.parse(target)), threads, space, 0, 1, target)


def keep_if_faster(
    database: Database, programs: _Programs, choices: LayoutChoices, proposed: tuple[Choice, Choice]
) -> tuple[KnobValues | None, Comparison | None, bool]:
    """
    Check the proposed choices, the graph's and kernel-best, and keep the first one that is surely faster.

    The graph's choice comes first, unless kernel-best is surely faster than it. Gives the values and the comparison
    with the default of the kept one, or of the last one that was checked.
    """
    tried = [choices.values(one) for one in dict.fromkeys(proposed) if any(one)]
    if len(tried) == 2 and programs.compare(tried[1], tried[0]).high < 1:
        tried.reverse()
    checked: tuple[KnobValues | None, Comparison | None] = None, None
    for values in tried:
        comparison = programs.compare(None, values)
        checked = values, comparison
        if comparison.low > 1:
            database.keep(programs.task, values, comparison)
            return values, comparison, True
    if checked[1] is not None and database.best(programs.task) is not None:  # an earlier one, which is no longer faster
        database.keep(programs.task, _default_values(len(choices.sites)), no_change(checked[1]))
    return checked[0], checked[1], False


class _Programs:
    """The programs of a model under several layouts, with the kernels' records in force in all of them."""

    def __init__(self, model: Source, task: Task, options: Mapping[str, Any]) -> None:
        self.task = task
        self._model, self._options = model, options
        self._around = given_records(None)
        self._default = self._compiled(None)
        inputs = random_inputs(self._default)
        if inputs is None:
            raise UserError("expected a model of fixed sizes to tune the layouts of")
        self._inputs = inputs

    def compare(self, before: KnobValues | None, after: KnobValues) -> Comparison:
        """The whole model under some blocks against others; None: the default."""
        one, other = self._default if before is None else self._compiled(before), self._compiled(after)
        return compare_calls(lambda: one(self._inputs), lambda: other(self._inputs))

    def _compiled(self, values: KnobValues | None) -> Executable:
        here = None if values is None else Snapshot("layouts", {self.task.key: SnapshotEntry(values, "", LAYOUTS)})
        records, task = chained([here, self._around]) or False, self.task
        return compile(self._model, target=task.compiled_for, threads=task.threads, records=records, **self._options)
