"""
PassContext: which passes of a pipeline run, with which options, and who watches.

    with mlc.PassContext(opt_level=2, disabled=["graph-fuse-ops"], config={"graph-fold-constant.max-bytes": 1 << 20}):
        exe = mlc.compile("model.onnx")

The rule that decides about a pass of a named pipeline is TVM's: a disabled pass is left out, a required one runs, any
other runs if the context's level is at least the pass's (GRAPH in pipelines.py). A pass that a program applies
itself, or names in a pipeline text, is not subject to it. A required pass ignores the veto of an instrument.

A pass of the user's own goes where `insert` says, by the name of another one:

    with mlc.PassContext(insert={"before graph-fuse-ops": SwapReluPass(), "after te-inline": "te-my-pass{limit=4}"}):
"""

from __future__ import annotations

import contextvars
import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType
from typing import Any, cast

from xdsl.passes import ModulePass

from mlc.driver.pipeline.pipelines import compiler_passes
from mlc.support.errors import UserError, did_you_mean

Extra = ModulePass | type[ModulePass] | str
"""A pass to insert: an object, a class whose options have defaults, or the text of a pipeline."""

HOOKS = ("enter_context", "exit_context", "should_run", "before", "after", "failed", "rejected")
"""The methods that an instrument may have (driver/pipeline/instruments.py)."""

_STACK: contextvars.ContextVar[tuple[PassContext, ...]] = contextvars.ContextVar("mlc_pass_context", default=())


@dataclass(frozen=True)
class PassContext:
    """
    An optimisation level (0 to 4), names of passes, instruments (instruments.py), options by `pass.option`,
    and passes to insert by `before pass` or `after pass`: before its first run, or after its last, at any level.

    Raises UserError for an unknown pass or option (with the nearest name) and for a value of the wrong type.
    """

    opt_level: int = 3
    required: Sequence[str] = ()
    disabled: Sequence[str] = ()
    instruments: Sequence[Any] = ()
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    insert: Mapping[str, Extra | Sequence[Extra]] = field(default_factory=dict[str, "Extra | Sequence[Extra]"])

    def __post_init__(self) -> None:
        if type(self.opt_level) is not int or self.opt_level not in range(5):
            raise UserError(f"expected opt_level to be 0 to 4, but got {self.opt_level!r}")
        for what, names in (("required", self.required), ("disabled", self.disabled)):
            if isinstance(names, str) or not _is_collection(names):
                text = "the text " if isinstance(names, str) else ""
                raise UserError(f"expected {what} to be a list of pass names, but got {text}{names!r}")
            for name in names:
                _known_pass(name)
        for what, given in (("config", self.config), ("insert", self.insert)):
            if not _is_by_text(given):
                raise UserError(f"expected {what} to be a dict with texts as keys, but got {given!r}")
        _check_instruments(self.instruments)
        both = sorted(set(self.required) & set(self.disabled))
        if both:
            raise UserError(f"expected a pass to be required or disabled, but '{both[0]}' is both")
        inserted = {one.name for extra in self.insertions().values() for one in extra}
        for name in set(self.required) - inserted - set(compiler_passes()):
            remedy = f'insert={{"before graph-fuse-ops": "{name}"}} gives it a place'
            raise UserError(f"expected required to name passes of the compiler's pipelines, but got '{name}'; {remedy}")
        _ = self.options

    @staticmethod
    def current() -> PassContext | None:
        """The innermost context of this thread that has been entered."""
        stack = _STACK.get()
        return stack[-1] if stack else None

    def __enter__(self) -> PassContext:
        """Make this the current context; if an instrument refuses, those that entered leave again."""
        entered: list[Any] = []
        try:
            for instrument in self.instruments:
                _call(instrument, "enter_context", self)
                entered.append(instrument)
        except BaseException:
            for instrument in reversed(entered):
                _call(instrument, "exit_context", self)
            raise
        _STACK.set((*_STACK.get(), self))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Make the context around it the current one again; every instrument leaves, whatever another one raises."""
        _STACK.set(_STACK.get()[:-1])
        failed: BaseException | None = None
        for instrument in reversed(self.instruments):
            try:
                _call(instrument, "exit_context", self)
            except Exception as problem:  # the others must leave too; the first problem is raised below
                failed = failed or problem
        if failed is not None and error is None:
            raise failed

    @cached_property
    def options(self) -> dict[str, dict[str, Any]]:
        """Pass name -> field -> value, checked against the passes' own fields."""
        from mlc.driver.pipeline.registry import pass_class

        result: dict[str, dict[str, Any]] = {}
        for key, value in self.config.items():
            name, dot, option = key.rpartition(".")
            if not dot:
                raise UserError(f"expected a config key like 'graph-fuse-ops.max-depth', but got '{key}'")
            _known_pass(name)
            fields = {f.name.replace("_", "-"): f.name for f in dataclasses.fields(pass_class(name))}
            if option not in fields:
                raise UserError(f"pass '{name}' has no option '{option}'{did_you_mean(option, fields)}")
            check_option(pass_class(name), fields[option], value, f"config '{key}'")
            result.setdefault(name, {})[fields[option]] = value
        return result

    def insertions(
        self, settings: Mapping[str, str | int | float] | None = None
    ) -> dict[tuple[str, str], list[ModulePass]]:
        """("before" or "after", name of a pass) -> the passes that go there; classes that are new are registered."""
        placed = compiler_passes()
        result: dict[tuple[str, str], list[ModulePass]] = {}
        for key, extra in self.insert.items():
            where, _, anchor = key.partition(" ")
            if where not in ("before", "after") or not anchor:
                raise UserError(f"expected insert to name places like 'before graph-fuse-ops', but got '{key}'")
            if anchor not in placed:
                nearest = did_you_mean(anchor, placed)
                raise UserError(f"expected '{key}' to name a pass of the compiler's pipelines{nearest}")
            extras: Sequence[Any] = extra if isinstance(extra, list | tuple) else [extra]
            result[where, anchor] = [one for item in extras for one in _passes(item, settings)]
            for one in result[where, anchor]:
                _check_level(one.name, where, anchor, placed)
        return result

    def configure(
        self,
        passes: Iterable[ModulePass],
        all_levels: Iterable[ModulePass] = (),
        settings: Mapping[str, str | int | float] | None = None,
    ) -> list[ModulePass]:
        """
        The passes that run, of a pipeline for this level, with the options that `config` gives.

        Those that the pipeline lacks stand in that of the highest level: required ones come from there, and places.
        `settings` are the values of `$name` in the texts of passes that `insert` gives.
        """
        steps, at = [(one, True) for one in passes], 0
        present = {one.name for one, _ in steps}
        for one in all_levels:
            found = next((k for k in range(at, len(steps)) if steps[k][0].name == one.name), None)
            if found is None:
                steps.insert(at, (one, one.name in self.required and one.name not in present))
            at = at + 1 if found is None else found + 1
        for (where, anchor), extra in self.insertions(settings).items():
            places = [k for k, (one, _) in enumerate(steps) if one.name == anchor]
            if places:
                place = places[0] if where == "before" else places[-1] + 1
                steps[place:place] = [(one, True) for one in extra]
        chosen = [one for one, runs in steps if runs and one.name not in self.disabled]
        return [dataclasses.replace(one, **self.options.get(one.name, {})) for one in chosen]

    def key(self) -> str:
        """The part of a cache key that stands for this context."""
        from mlc.driver.pipeline.text import pass_text

        inserted = [(place, [pass_text(one) for one in extra]) for place, extra in self.insertions().items()]
        return repr(
            (self.opt_level, sorted(self.required), sorted(self.disabled), sorted(self.config.items()), inserted)
        )


def _passes(extra: Extra, settings: Mapping[str, str | int | float] | None) -> list[ModulePass]:
    """The passes of one item of `insert`; a class that is not registered yet is registered under its name."""
    from mlc.driver.pipeline.registry import is_pass, pass_class, register_pass
    from mlc.driver.pipeline.text import parse_pipeline

    if isinstance(extra, str):
        return parse_pipeline(extra, settings)
    cls = extra if isinstance(extra, type) else type(extra)
    if not issubclass(cls, ModulePass):  # pyright: ignore[reportUnnecessaryIsInstance] callers need not be typed
        raise UserError(f"expected insert to hold passes, their classes or the text of a pipeline, but got {extra!r}")
    if not isinstance(getattr(cls, "name", None), str):
        raise UserError(f'expected a pass with a name, but class {cls.__name__} has none; add name = "graph-my-pass"')
    if not is_pass(cls.name) or pass_class(cls.name) is not cls:
        register_pass(cls)
    if not isinstance(extra, type):
        return [extra]
    try:
        return [cls()]
    except TypeError as error:
        raise UserError(
            f"expected an object of pass '{cls.name}' with its options, but got the class: {error}"
        ) from error


_LEVELS = ("graph", "te", "loop", "llvm")


def _levels(name: str) -> tuple[str | None, str | None]:
    """The levels before and after a pass, by its name; None where the name does not say."""
    words = name.split("-")
    if len(words) == 4 and words[0] == "convert" and words[2] == "to":
        before, after = words[1], words[3]
    else:
        before = after = words[0]
    return before if before in _LEVELS else None, after if after in _LEVELS else None


def _check_level(name: str, where: str, anchor: str, placed: Iterable[str]) -> None:
    """UserError for a pass whose name says that it works on another level than that at its place."""
    own, here = _levels(name)[0], _levels(anchor)[where == "after"]
    if own is None or here is None or own == here:
        return
    place = next((f"'after {one}'" for one in placed if _levels(one)[1] == own), "")
    remedy = f"; its level is at {place}" if place else ""
    raise UserError(f"expected a pass of the {here} level at '{where} {anchor}', but got '{name}'{remedy}")


def check_option(cls: type[ModulePass], name: str, value: object, what: str) -> None:
    """UserError unless the value has the type of a pass's field."""
    from typing import Literal, get_args, get_origin, get_type_hints

    from xdsl.utils.hints import isa, type_repr

    hint = get_type_hints(cls)[name]
    fits = isa(value, hint) and (not isinstance(value, bool) or (isa(True, hint) and hint is not int))
    if not fits and not (hint is float and isinstance(value, int) and not isinstance(value, bool)):
        choices = get_args(hint) if get_origin(hint) is Literal else ()
        wanted = f"one of {', '.join(map(repr, choices))}" if choices else type_repr(hint)
        nearest = did_you_mean(value, choices) if choices and isinstance(value, str) else ""
        raise UserError(f"expected {what} to be {wanted}, but got {value!r}{nearest}")


def _is_collection(value: object) -> bool:
    return isinstance(value, Collection)


def _is_by_text(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in cast("Mapping[object, object]", value))


def _known_pass(name: str) -> None:
    from mlc.driver.pipeline.registry import is_pass, pass_names

    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance] callers need not be typed
        raise UserError(f"expected the name of a pass, but got {name!r}")
    if not is_pass(name):
        raise UserError(f"unknown pass '{name}'{did_you_mean(name, pass_names())}")


def _check_instruments(instruments: object) -> None:
    """UserError unless these are objects with at least one of `HOOKS`."""
    if not isinstance(instruments, Iterable):
        raise UserError(f"expected instruments to be a list of objects, but got {instruments!r}")
    for one in instruments:
        if isinstance(one, type):
            raise UserError(f"expected an instrument, but got the class {one.__name__}; call it")
        if not any(hasattr(one, hook) for hook in HOOKS):
            raise UserError(f"expected an instrument with one of {', '.join(HOOKS)}, but got {one!r}")


def _call(instrument: object, method: str, context: PassContext) -> None:
    if (hook := getattr(instrument, method, None)) is not None:
        hook(context)
