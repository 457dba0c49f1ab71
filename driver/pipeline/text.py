"""
The text of a pipeline, as mlir-opt writes it: `builtin.module(a,b{x=1 tiles=4,8 name="x y"},O3)`.

    pipeline ::= element (`,` element)*
    element  ::= `builtin.module` `(` pipeline? `)` | name options?
    options  ::= `{` (key (`=` value (`,` value)*)?)* `}`
    value    ::= number | `true` | `false` | word | "string" | `$` setting

A name is a pass or a named pipeline. Spaces between elements do not matter. `$threads` is the setting of that name; an
option whose setting is not given keeps its default.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, NoReturn, get_args, get_origin, get_type_hints

from typing_extensions import TypeForm
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec, ParameterListType
from xdsl.utils.hints import isa, type_repr

from mlc.driver.pipeline.pipelines import PIPELINES
from mlc.driver.pipeline.registry import is_pass, pass_class
from mlc.support.errors import UserError, did_you_mean

_ANCHOR = "builtin.module"
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[(){}=,]|[^\s(){}=,"]+')
_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")


Settings = Mapping[str, str | int | float]
"""Values for the words `$name` of a pipeline text."""


class PipelineError(UserError):
    """A wrong pipeline; `column` counts from 1 in the text."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__(message)
        self.column = column


class _Reader:
    """The tokens of a pipeline text, one at a time."""

    def __init__(self, text: str, settings: Settings) -> None:
        self.text = text
        self.settings = settings
        self.pos = 0
        self.token = ""
        self.start = 0
        self.next()

    def next(self) -> str:
        """Step to the next token; return the one that was current."""
        token = self.token
        while self.pos < len(self.text) and self.text[self.pos].isspace():
            self.pos += 1
        self.start = self.pos
        if self.pos == len(self.text):
            self.token = ""
        elif match := _TOKEN.match(self.text, self.pos):
            self.token, self.pos = match.group(), match.end()
        else:
            self.fail(f"unexpected character {self.text[self.pos]!r} in the pipeline")
        return token

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        raise PipelineError(message, (self.start if at is None else at) + 1)

    def got(self) -> str:
        return f"'{self.token}'" if self.token else "the end of the pipeline"

    def take(self, punctuation: str, where: str) -> None:
        if self.token != punctuation:
            self.fail(f"expected '{punctuation}' {where}, but got {self.got()}")
        self.next()

    def word(self, what: str) -> str:
        if not self.token or self.token[0] in '(){}=,"':
            self.fail(f"expected {what}, but got {self.got()}")
        return self.next()


def parse_pipeline(text: str, settings: Settings | None = None) -> list[ModulePass]:
    """The passes that a pipeline text names, in order, with their options; `settings` are the values of `$name`."""
    reader = _Reader(text, settings or {})
    if not reader.token:
        reader.fail("expected a pass name, but got an empty pipeline")
    passes = _elements(reader, ())
    if reader.token:
        reader.fail(f"expected ',' or the end of the pipeline, but got {reader.got()}")
    return passes


def _elements(reader: _Reader, inside: tuple[str, ...]) -> list[ModulePass]:
    passes = _element(reader, inside)
    while reader.token == ",":
        reader.next()
        passes += _element(reader, inside)
    return passes


def _element(reader: _Reader, inside: tuple[str, ...]) -> list[ModulePass]:
    start = reader.start
    name = reader.word("a pass name")
    if reader.token == "(":
        return _nested(reader, name, start, inside)
    if name in PIPELINES and not is_pass(name):
        if reader.token == "{":
            reader.fail(f"pipeline '{name}' takes no options")
        return _named(reader.settings, name, start, inside)
    options = _options(reader) if reader.token == "{" else {}
    try:
        cls = pass_class(name, PIPELINES)
    except UserError as error:
        raise PipelineError(str(error), start + 1) from error
    return [_build(reader, cls, options, start)]


def _nested(reader: _Reader, name: str, start: int, inside: tuple[str, ...]) -> list[ModulePass]:
    if name != _ANCHOR:
        reader.fail(f"expected a pipeline on '{_ANCHOR}', but got one on '{name}'", start)
    reader.next()
    if reader.token == ")":
        reader.next()
        return []
    depth = (*inside, "(")
    if depth.count("(") > 64:
        reader.fail("expected at most 64 nested pipelines")
    passes = _elements(reader, depth)
    reader.take(")", f"at the end of '{_ANCHOR}('")
    return passes


def _named(settings: Settings, name: str, start: int, inside: tuple[str, ...]) -> list[ModulePass]:
    if name in inside:
        raise PipelineError(f"pipeline '{name}' contains itself", start + 1)
    passes: list[ModulePass] = []
    for spec in PIPELINES[name]:
        try:
            passes += _elements(_Reader(spec, settings), (*inside, name))
        except PipelineError as error:
            raise PipelineError(f"in pipeline '{name}': {error}", start + 1) from error
    return passes


def _options(reader: _Reader) -> dict[str, tuple[int, ParameterListType]]:
    """Option name -> where it stands, and its values."""
    options: dict[str, tuple[int, ParameterListType]] = {}
    reader.next()
    while reader.token != "}":
        start = reader.start
        name = reader.word("an option name or '}'")
        if name in options:
            reader.fail(f"option '{name}' is given twice", start)
        values: list[Any] = []
        if reader.token == "=":
            reader.next()
            values.append(_value(reader))
            while reader.token == ",":  # pyright: ignore[reportUnnecessaryComparison] reading a value moves it
                reader.next()
                values.append(_value(reader))
        if (given := _settled(reader, values)) is not None:
            options[name] = start, given
    reader.next()
    return options


def _settled(reader: _Reader, values: Sequence[str | int | float | bool]) -> ParameterListType | None:
    """An option's values with settings in the place of `$name`; None where the setting is not given."""
    if len(values) != 1 or not isinstance(values[0], str) or not values[0].startswith("$"):
        return tuple(values)
    found = reader.settings.get(values[0][1:])
    return None if found is None else (found,)


def _value(reader: _Reader) -> str | int | float | bool:
    if reader.token.startswith('"'):
        return re.sub(r"\\(.)", r"\1", reader.next()[1:-1])
    word = reader.word("a value")
    if word in ("true", "false"):
        return word == "true"
    if _INT.fullmatch(word):
        return int(word)
    return float(word) if _FLOAT.fullmatch(word) else word


def pass_text(module_pass: ModulePass) -> str:
    """The pass with the options that are not the defaults, as `parse_pipeline` reads it back."""
    spec = module_pass.spec()
    options = [
        f"{name}={','.join(map(_value_text, values))}" if values else name for name, values in spec.parameters.items()
    ]
    return f"{spec.name}{{{' '.join(options)}}}" if options else spec.name


def _value_text(value: str | int | float | bool) -> str:
    if isinstance(value, str):
        return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'
    return str(value).lower() if isinstance(value, bool) else str(value)


@lru_cache
def option_types(cls: type[ModulePass]) -> dict[str, Any]:
    """Option name -> its type, for the options that a pipeline may set."""
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls) if f.name != "name" and f.init}


def type_text(hint: TypeForm[object]) -> str:
    """An option's type as a user reads it: `int`, or the words that it may be, `tvm or mlc`."""
    return " or ".join(map(str, get_args(hint))) if get_origin(hint) is Literal else type_repr(hint)


def option_value(cls: type[ModulePass], option: str, text: str) -> Any:
    """The value that a text gives an option, of the type of the pass's field. Raises UserError for another type."""
    types, field = option_types(cls), option.replace("-", "_")
    known = [name.replace("_", "-") for name in types]
    if field not in types:
        hint = did_you_mean(option, known) or (f"; its options are {', '.join(known)}" if known else "")
        raise UserError(f"unknown option '{option}' of pass '{cls.name}'{hint}")
    reader = _Reader(text, {})
    values = [_value(reader)]
    while reader.token == ",":
        reader.next()
        values.append(_value(reader))
    found = _convert(tuple(values), types[field])
    if reader.token or not _fits(found, types[field]):
        wanted = type_text(types[field])
        raise UserError(f"option '{option}' of pass '{cls.name}': expected {wanted}, but got {text}")
    return found[0] if len(found) == 1 and isa(found[0], types[field]) else found


def _build(
    reader: _Reader, cls: type[ModulePass], options: dict[str, tuple[int, ParameterListType]], start: int
) -> ModulePass:
    types = option_types(cls)
    parameters: dict[str, ParameterListType] = {}
    for name, (at, values) in options.items():
        field = name.replace("-", "_")
        if field not in types:
            known = [f.replace("_", "-") for f in types]
            hint = did_you_mean(name, known) or (f"; its options are {', '.join(known)}" if known else "")
            reader.fail(f"unknown option '{name}' of pass '{cls.name}'{hint}", at)
        parameters[field] = _convert(values, types[field])
        if not _fits(parameters[field], types[field]):
            got = ",".join(map(str, values)) or "no value"
            wanted = type_text(types[field])
            reader.fail(f"option '{name}' of pass '{cls.name}': expected {wanted}, but got {got}", at)
    try:
        return cls.from_spec(ArgSpec(cls.name, parameters))
    except (ValueError, TypeError, UserError) as error:
        message = re.sub(r'.* requires argument "(\w+)"', r"option '\1' is required", str(error))
        return reader.fail(f"pass '{cls.name}': {message}", start)


def _convert(values: ParameterListType, hint: TypeForm[object]) -> ParameterListType:
    """An int where a float is wanted is that float; a flag without a value is true."""
    if not values and hint is bool:
        return (True,)
    if any(type(v) is int for v in values) and not _fits(values, hint):
        floats = tuple(float(v) if type(v) is int else v for v in values)
        return floats if _fits(floats, hint) else values
    return values


def _fits(values: ParameterListType, hint: TypeForm[object]) -> bool:
    if len(values) == 1 and isa(values[0], hint):
        return not (type(values[0]) is bool and hint is int)
    return isa(values, hint) or (not values and isa(None, hint))
