"""
Tasks: the kernels of a model, or one operator, with the space that the strategies' knobs span.

    model -> graph passes -> kernels -> te passes up to te-add-schedule -> Task (te text, target, space)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.parser import Parser

from mlc.dialects import te
from mlc.dialects.attributes import EXTERNAL_COMPILER, KERNEL_KNOBS, KERNEL_TEMPLATE
from mlc.dialects.runtime import CallOp
from mlc.driver.kernels.flops import flops_of
from mlc.driver.kernels.kernel import kernel_passes
from mlc.driver.memory_options import MemoryOptions
from mlc.driver.models.bind_sizes import copied
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.compile import load_model
from mlc.driver.models.kernels import device_of
from mlc.driver.models.schedules import Schedules
from mlc.driver.operator.source import OperatorLike, operator_source
from mlc.driver.options import Options, current_context, level_in
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.lowering.graph_to_te.extern.kernels import is_extern
from mlc.schedules.analysis import KernelInfo
from mlc.schedules.externs import parts_between_externs
from mlc.schedules.kernel_key import kernel_text
from mlc.schedules.knobs import given, values_attribute
from mlc.schedules.registry import Strategy, find_strategy
from mlc.schedules.registry import strategies as known_strategies
from mlc.schedules.selection import choose_schedule, knobs_of
from mlc.support.errors import UserError, did_you_mean
from mlc.support.records import answering
from mlc.support.threads import thread_count
from mlc.targets.description import describe
from mlc.targets.device import HOST, devices_of
from mlc.targets.target import Target, TargetLike, target_text
from mlc.tuning.algorithms import forms_of, without_algorithms
from mlc.tuning.operations import operations_of
from mlc.tuning.space import STRATEGY, Knob, Part, Space, Values
from mlc.tuning.task import Alternative, Task
from mlc.tuning.templates.template import template_schedule

if TYPE_CHECKING:
    from mlc.driver.models.load import Source

_BEFORE_SCHEDULES = "te-read-records"
"""The pass that asks the records: in front of it stands the te text by which records are found."""


def extract_tasks(
    model: Source,
    target: TargetLike = "native",
    threads: int | None = None,
    strategies: Sequence[str] | None = None,
    **options: Any,
) -> list[Task]:
    """
    The kernels of a model in the order of their calls, each once, with the number of its calls as weight.

    `options` are those of mlc.compile that change kernels. `strategies` is that of `parts_of`. Some kernels are left
    out: see `Extraction`. Raises UserError for a model that cannot be compiled.
    """
    return extraction_of(model, target, threads, strategies, **options).tasks


ALL = "all"
"""Among the names of strategies: all that accept a kernel, generated sketches included."""

OPEN_SIZES = "of open sizes, which shapes= or --shape fixes"
BY_HAND = "with a schedule by hand"
EXTERNAL = "of an external compiler"
EXTERN_STAGES = "around te.extern stages"
LOOPS = "written as loops, which have no schedule"


@dataclass
class Extraction:
    """The tasks of a model, and how many of its calls no task stands for."""

    tasks: list[Task]
    left_out: dict[str, int]
    """The number of calls by the reason why their kernel is not tuned."""

    @property
    def calls(self) -> int:
        """All calls of kernels, those in loops and branches once."""
        return sum(task.weight for task in self.tasks) + sum(self.left_out.values())


def extraction_of(
    model: Source,
    target: TargetLike = "native",
    threads: int | None = None,
    strategies: Sequence[str] | None = None,
    **options: Any,
) -> Extraction:
    """The tasks of a model, as `extract_tasks` gives them, and what is left out."""
    shapes, symbols = options.pop("shapes", None), options.pop("symbols", None)
    settings = options_of(target, threads, options)
    settings = replace(settings, records=without_algorithms(settings.records))
    compilation = Compilation(copied(load_model(model, shapes, symbols)), settings)
    main, sources = compilation.plan()
    found: dict[tuple[str, str, int], Task] = {}
    left_out: Counter[str] = Counter()
    for name, calls in _calls(main).items():
        task = _task_or_reason(name, sources[name], calls, settings, strategies)
        if isinstance(task, str):
            left_out[task] += calls
        else:
            before = found.get(task.key)
            found[task.key] = task if before is None else replace(before, weight=before.weight + calls)
    return Extraction(list(found.values()), dict(left_out))


def _task_or_reason(
    name: str, source: Operation, calls: int, settings: Options, strategies: Sequence[str] | None
) -> Task | str:
    """The task of a kernel, or why it has none."""
    flops = flops_of(source)
    if settings.schedules is not None and name in {one for one, _ in settings.schedules.texts}:
        return BY_HAND
    if EXTERNAL_COMPILER in source.attributes:
        return EXTERNAL
    if isinstance(source, FuncOp) and any(map(is_extern, source.body.block.ops)):
        return LOOPS
    if not isinstance(flops, int):
        return OPEN_SIZES
    options = settings.on(device_of(source) or HOST)
    func = _te_kernel(source, options)
    if func is None:
        return EXTERN_STAGES
    task = task_of_kernel(func, options, name, flops, calls, strategies)
    return with_algorithms(task, source, options, strategies) if isinstance(source, FuncOp) else task


def with_algorithms(task: Task, source: FuncOp, options: Options, strategies: Sequence[str] | None) -> Task:
    """The task of a kernel with a part for each strategy of each algorithm that it may have; the compiler's first."""
    forms = forms_of(source, Target.parse(options.target), options.error_growth)
    if forms is None:
        return task
    parts: list[Part] = []
    found: list[Alternative] = []
    for form in forms.forms:
        func = _te_kernel(form.source, options)
        assert func is not None
        own = parts_of(func, Target.parse(options.target), options.threads, strategies)
        named = [replace(part, algorithm=form.algorithm) for part in own]
        parts = [*named, *parts] if form.algorithm == forms.chosen else [*parts, *named]
        found.append(Alternative(form.algorithm, kernel_text(func), form.packed, form.error_growth))
    return replace(task, space=Space(tuple(parts)), algorithms=tuple(found), question=forms.question)


def task_of(
    func: OperatorLike,
    target: TargetLike = "native",
    threads: int | None = None,
    strategies: Sequence[str] | None = None,
) -> Task:
    """The task of one operator, as mlc.build takes it, without a schedule; `strategies` is that of `parts_of`."""
    source = operator_source(func)
    if source.schedule is not None or not isinstance(source.kernel, te.FuncOp):
        raise UserError("expected a te.func without a schedule to tune, but got one with a schedule or a loop.func")
    options = options_of(target, threads, {})
    kernel = _te_kernel(source.kernel, options)
    if kernel is None:
        raise UserError("expected a te.func without te.extern stages to tune")
    name, flops = source.kernel.sym_name.data, operations_of(kernel)
    return task_of_kernel(kernel, options, name, flops, strategies=strategies)


def task_of_kernel(
    func: te.FuncOp,
    options: Options,
    name: str,
    flops: int,
    weight: int = 1,
    strategies: Sequence[str] | None = None,
) -> Task:
    """The task of a kernel on te, as it is when its schedule is chosen."""
    target = Target.parse(options.target)
    space = Space(tuple(parts_of(func, target, options.threads, strategies)))
    text = kernel_text(func)
    return Task(name, text, describe(target), options.threads, space, flops, weight, options.target)


def parts_of(func: te.FuncOp, target: Target, threads: int, wanted: Sequence[str] | None = None) -> list[Part]:
    """
    A part for each strategy that accepts a kernel, the compiler's choice first; its knobs are those it asks for.

    Strategies of the family "any" (generated sketches) are a part only where no other accepts the kernel: tuners draw
    from all candidates alike, and a sketch has thousands of times as many as the strategies written by hand. `wanted`
    names the strategies beside the compiler's choice instead, ALL stands for every one. Raises UserError for a name
    that is no strategy's.
    """
    expect_strategies(wanted)
    parts: list[Part] = []
    for one in known_strategies():
        if parts and not _is_wanted(one, wanted):
            continue
        with given(None):
            schedule = one.schedule(KernelInfo(func), target, threads)
        if schedule is not None:
            knobs = (Knob(name, op.values, op.default_value) for name, op in knobs_of(schedule).items())
            parts.append(Part(one.name, tuple(knobs)))
    return parts


def expect_strategies(names: Sequence[str] | None) -> None:
    """UserError for a name that is no strategy's."""
    if isinstance(names, str):
        raise UserError(f"expected a list of strategies, but got {names!r}")
    for name in names or ():
        if name != ALL:
            find_strategy(name)


def _is_wanted(one: Strategy, wanted: Sequence[str] | None) -> bool:
    """Whether a strategy that is not the compiler's choice gets a part."""
    return one.family != "any" if wanted is None else one.name in wanted or ALL in wanted


def candidate_module(task: Task, values: Values) -> ModuleOp:
    """
    The te.func of a task, and beside it the schedule for these values.

    Raises UserError where the strategy, or the function of a template, refuses them.
    """
    if values.get(STRATEGY) in [part.strategy for part in task.space.parts]:
        task.space.index_of(values)  # others, of which records may be, are checked where they write the schedule
    func = _parsed(task.kernel_of(values)).clone()
    if isinstance(call := func.attributes.get(KERNEL_TEMPLATE), StringAttr):
        return template_schedule(task, call.data, values).module
    func.attributes[KERNEL_KNOBS] = values_attribute(values)
    return ModuleOp([func, choose_schedule(func, Target.parse(task.compiled_for), task.threads)])


@lru_cache(maxsize=4)
def _parsed(kernel: str) -> te.FuncOp:
    """The te.func of a task's text; a builder gets many candidates of a task, so that it is parsed once."""
    module = Parser(make_context(), kernel).parse_module()
    return next(op for op in module.body.block.ops if isinstance(op, te.FuncOp))


KERNEL_OPTIONS = (
    *("opt_level", "schedules", "precision", "error_growth", "compilers", "devices"),
    *("memory_planner", "memory_seed", "pools"),
)
"""The options of `mlc.compile` that change kernels."""


def options_of(target: TargetLike, threads: int | None, given: Mapping[str, Any]) -> Options:
    """The options of a compilation; UserError for one that changes no kernel, or is out of range."""
    for name in given.keys() - KERNEL_OPTIONS:
        known = did_you_mean(name, KERNEL_OPTIONS)
        raise UserError(f"expected an option that changes kernels, but got '{name}'{known}")
    context = current_context()
    planner, seed = given.get("memory_planner", "best"), given.get("memory_seed", 0)
    return Options(
        target_text(target),
        level_in(context, given.get("opt_level")),
        thread_count(threads),
        schedules=Schedules.read(given.get("schedules")),
        precision=given.get("precision", "f32"),
        error_growth=given.get("error_growth", 16.0),
        context=context,
        compilers=tuple(given.get("compilers", ())),
        memory=MemoryOptions.of(planner, seed, given.get("pools", ())),
        devices=devices_of(given.get("devices")),
    )


def _calls(main: FuncOp) -> dict[str, int]:
    """The calls of each kernel in @main, those in loops and branches once."""
    found: dict[str, int] = {}
    for op in main.walk():
        if isinstance(op, CallOp):
            name = op.callee.string_value()
            found[name] = found.get(name, 0) + 1
    return found


def _te_kernel(source: Operation, options: Options) -> te.FuncOp | None:
    """A kernel as it is when its schedule is chosen; None where its stages between te.externs are scheduled apart."""
    passes = kernel_passes(options, "te" if isinstance(source, te.FuncOp) else "graph")
    names = [one.name for one in passes]
    if _BEFORE_SCHEDULES not in names:
        raise UserError("expected an optimisation level at which strategies choose schedules, -O 2 or more")
    module = ModuleOp([source.clone()])
    with answering(None):  # the text by which records are found has no record's values
        run_passes(module, make_context(), passes[: names.index(_BEFORE_SCHEDULES)])
    func = next(op for op in module.body.block.ops if isinstance(op, te.FuncOp))
    return func if parts_between_externs(func) is None else None


__all__: Sequence[str] = [
    "Extraction",
    "candidate_module",
    "extract_tasks",
    "extraction_of",
    "options_of",
    "parts_of",
    "task_of",
    "task_of_kernel",
]
