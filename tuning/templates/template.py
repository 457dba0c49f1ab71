"""
`@mlc.tuning.template`: a user's function that writes an operator with its schedule, and asks a Config for choices.

    @mlc.tuning.template
    def gemm(cfg, n, m, k):
        ...                                # mlc.te tensors, cfg.define_split(..), s = mlc.Schedule(.., cfg.target)
        return s

    mlc.tune(gemm.task(512, 512, 512), "r.db")
    with mlc.records("r.db"):
        op = mlc.build(gemm(512, 512, 512))

The te.func of its task carries the attribute `mlc.template = "products:gemm(512, 512, 512)"`: processes that build
candidates import the function by that name, and records of the operator scheduled by hand and by mlc stay apart.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias, cast, overload

from xdsl.dialects.builtin import StringAttr

from mlc.dialects import te
from mlc.dialects.attributes import KERNEL_TEMPLATE
from mlc.frontends.te.schedule import Schedule
from mlc.schedules.kernel_key import kernel_hash, kernel_text
from mlc.support.errors import UserError, located
from mlc.support.records import all_in_force
from mlc.support.threads import thread_count
from mlc.targets.description import describe
from mlc.targets.target import Target, TargetLike, target_text
from mlc.tuning.operations import operations_of
from mlc.tuning.space import Part, Space, Values
from mlc.tuning.task import Task
from mlc.tuning.templates.config import Config

Write: TypeAlias = "Callable[..., Schedule]"
"""(config, sizes ..) -> the schedule of an operator."""

_TEMPLATES: dict[str, Template] = {}
"""Those of this process by `module:function`."""


@dataclass(frozen=True)
class _Run:
    """What one call of the function gave: the schedule with the knobs at its head, and the configuration."""

    schedule: Schedule
    config: Config


class Template:
    """A template: `gemm.task(512, 512, 512)` is to be tuned, `gemm(512, 512, 512)` the schedule by the records."""

    def __init__(self, write: Write, version: int = 1) -> None:
        self.write = write
        self.name = write.__name__
        self.version = version
        self.reference = f"{_module_name(write)}:{write.__qualname__}"
        """The `module:function` by which other processes import it."""
        self.__doc__ = write.__doc__
        self._parameters = _parameters(write)
        self._defaults: dict[tuple[str, str, int], _Run] = {}
        _TEMPLATES[self.reference] = self

    def __repr__(self) -> str:
        return f"<template {self.reference}>"

    def __call__(self, *sizes: Any, **named: Any) -> Schedule:
        """The schedule for the native target and the threads in force: see `schedule`."""
        return self.schedule(*sizes, **named)

    @located()
    def schedule(
        self, *sizes: Any, target: TargetLike = "native", threads: int | None = None, **named: Any
    ) -> Schedule:
        """
        The operator for these sizes with its schedule, for mlc.build: by the record in force, else the fallback.

        The schedule begins with the knobs. Raises UserError for sizes that the function does not take.
        """
        text, count = target_text(target), thread_count(threads)
        arguments = self._bound(sizes, named)
        default = self._default(arguments, text, count)
        func = self._marked(default.schedule.func, arguments)
        provider = all_in_force()
        found = None
        if provider is not None:
            found = provider.best(kernel_hash(func), describe(Target.parse(text)), count)
        if found is None:
            return Schedule(str(default.schedule.text("module")), text)
        return self._run(arguments, text, count, found).schedule

    @located()
    def task(self, *sizes: Any, target: TargetLike = "native", threads: int | None = None, **named: Any) -> Task:
        """
        The operator for these sizes as a task for mlc.tune, whose space are the knobs that the function defines.

        Raises UserError for sizes that the function does not take, and for a function that other processes cannot
        import: one inside of another function, or of an interactive session.
        """
        _check_importable(self.write)
        text, count = target_text(target), thread_count(threads)
        arguments = self._bound(sizes, named)
        run = self._default(arguments, text, count)
        func = self._marked(run.schedule.func, arguments)
        space = Space((Part(self.reference, run.config.knobs()),))
        flops = operations_of(func) if run.config.flop is None else run.config.flop
        return Task(self.name, kernel_text(func), describe(Target.parse(text)), count, space, flops, 1, text)

    def candidate(self, arguments: tuple[Any, ...], target: str, threads: int, values: Values) -> Schedule:
        """The schedule for these values of all knobs; UserError where they are refused."""
        return self._run(arguments, target, threads, values).schedule

    # --- inside -------------------------------------------------------------------------------------------------

    def _default(self, arguments: tuple[Any, ...], target: str, threads: int) -> _Run:
        key = repr(arguments), target, threads
        if key not in self._defaults:
            self._defaults[key] = self._run(arguments, target, threads, None)
        return self._defaults[key]

    def _run(self, arguments: tuple[Any, ...], target: str, threads: int, values: Values | None) -> _Run:
        """Call the function with a configuration; its schedule, with the knobs at the head."""
        default = None if values is None else self._default(arguments, target, threads)
        fallback = {} if default is None else {knob.name: knob.default for knob in default.config.knobs()}
        config = Config(Target.parse(target), threads, values, fallback)
        made = self.write(config, *arguments)
        if not isinstance(made, Schedule):  # pyright: ignore[reportUnnecessaryIsInstance] the function is the user's
            raise UserError(f"expected template '{self.name}' to return an mlc.Schedule, but got {made!r}")
        if not isinstance(made.func, te.FuncOp):
            raise UserError(f"expected template '{self.name}' to schedule a te.func, but got {made.func.name}")
        config.check_values()
        if default is not None and made.func.function_type != cast("te.FuncOp", default.schedule.func).function_type:
            raise UserError(f"expected arrays of the same types for all candidates of template '{self.name}'")
        return _Run(_with_knobs(made, config, target), config)

    def _bound(self, sizes: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """The arguments in the order of the function's parameters, those left out included."""
        try:
            bound = self._parameters.bind(*sizes, **named)
        except TypeError as error:
            raise UserError(f"template '{self.name}': {error}; expected {self._parameters}") from None
        bound.apply_defaults()
        for one in bound.args:
            if not _is_literal(one):
                raise UserError(f"template '{self.name}': expected numbers, texts, None or tuples of them, got {one!r}")
        return bound.args

    def _marked(self, func: te.FuncOp | Any, arguments: tuple[Any, ...]) -> te.FuncOp:
        """The operator with the call of the template as its attribute."""
        copy = func.clone()
        text = f"{self.reference}({', '.join(map(repr, arguments))})"
        copy.attributes[KERNEL_TEMPLATE] = StringAttr(text if self.version == 1 else f"{text} version {self.version}")
        return copy


@overload
def template(write: Write, *, version: int = 1) -> Template: ...
@overload
def template(write: None = None, *, version: int = 1) -> Callable[[Write], Template]: ...
def template(write: Write | None = None, *, version: int = 1) -> Template | Callable[[Write], Template]:
    """
    Make a template of a function (config, sizes ..) -> mlc.Schedule of te tensors or a te.func.

    Sizes are numbers, texts, None or tuples of them. Raise `version` when equal values of the knobs give another
    schedule: records of other versions are not found. Raises UserError for a function without a first parameter for the
    configuration, and for one with keyword-only parameters.
    """
    if write is None:
        return lambda one: Template(one, version)
    return Template(write, version)


def template_schedule(task: Task, call: str, values: Values) -> Schedule:
    """The schedule of a candidate, from the text of attribute `mlc.template`; UserError where it is refused."""
    reference, _, rest = call.partition("(")
    arguments = ast.literal_eval(f"({rest.rpartition(')')[0]},)") if rest[:1] != ")" else ()
    return _find(reference).candidate(arguments, task.compiled_for, task.threads, values)


def _find(reference: str) -> Template:
    """The template of that name, whose module is imported if it has to be."""
    if reference not in _TEMPLATES:
        module, _, name = reference.partition(":")
        try:
            import_module(module)
        except Exception as error:
            raise UserError(f"template '{name}': module '{module}' cannot be imported: {error}") from error
        if reference not in _TEMPLATES:
            raise UserError(f"expected module '{module}' to have a template '{name}', but it has none")
    return _TEMPLATES[reference]


def _with_knobs(made: Schedule, config: Config, target: str) -> Schedule:
    """The schedule with the knobs at its head."""
    module = made.module
    body = next(op for op in module.body.block.ops if op.name == "sched.schedule").regions[0].block
    for op in reversed(config.knob_ops()):
        first = body.first_op
        body.add_op(op) if first is None else body.insert_op_before(op, first)
    text = "\n".join(map(str, module.body.block.ops))
    return Schedule(text, target, name=f"<{made.func.sym_name.data}>")


def _parameters(write: Write) -> inspect.Signature:
    """The parameters behind the first, which is the configuration."""
    known = list(inspect.signature(write).parameters.values())
    if not known or known[0].kind not in (known[0].POSITIONAL_ONLY, known[0].POSITIONAL_OR_KEYWORD):
        raise UserError(f"expected template '{write.__name__}' to take the configuration as its first parameter")
    for one in known[1:]:
        if one.kind in (one.KEYWORD_ONLY, one.VAR_KEYWORD) or one.name in ("target", "threads"):
            raise UserError(f"expected sizes as parameters of template '{write.__name__}', but got '{one}'")
    return inspect.Signature(known[1:])


def _module_name(write: Write) -> str:
    """The name by which the function's module is imported; that of a script is its file's."""
    if write.__module__ != "__main__":
        return write.__module__
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return spec.name
    return Path(getattr(main, "__file__", None) or "__main__").stem


def _check_importable(write: Write) -> None:
    if "." in write.__qualname__ or _module_name(write) == "__main__":
        raise UserError(
            f"expected template '{write.__qualname__}' at the top of a module, which the processes that build "
            "candidates import; put it into a file of its own"
        )


def _is_literal(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_literal, cast("tuple[object, ...]", value)))
    return value is None or type(value) in (int, float, str, bool)


__all__ = ["Template", "template", "template_schedule"]
