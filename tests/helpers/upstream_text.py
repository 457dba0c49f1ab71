"""Parsing, verifying and printing with xDSL's own functions, where mlc has faster ones, to compare the two."""

import inspect
from contextlib import ExitStack, contextmanager
from io import StringIO
from typing import Any
from unittest import mock

from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRLexer

from mlc.dialects.syntax.input import InputError
from mlc.dialects.syntax.lexer import SourceLexer
from mlc.dialects.syntax.printer import SourcePrinter
from mlc.dialects.syntax.recipes.repeated_functions import RepeatedFunctions
from mlc.dialects.syntax.recipes.repeated_ops import RepeatedOps
from mlc.dialects.syntax.source import SourceParser, parse
from mlc.dialects.syntax.token_parser import TokenParser
from mlc.driver.pipeline.manager import make_context
from mlc.passes import verifier
from mlc.support.diagnostics import Place, place_of_op


def _nothing(*args: object) -> None:
    """Nothing is remembered."""


@contextmanager
def upstream():
    """Inside, mlc's parser and verifier do all with xDSL's functions; locations, limits and diagnostics stay mlc's."""
    with ExitStack() as stack:
        for name in vars(TokenParser):
            function = inspect.getattr_static(Parser, name, None)
            if not name.startswith("__") and function is not None:
                stack.enter_context(mock.patch.object(TokenParser, name, function))
        stack.enter_context(mock.patch.object(SourceParser, "parse_optional_type", Parser.parse_optional_type))
        stack.enter_context(mock.patch.object(SourceLexer, "lex", MLIRLexer.lex))
        stack.enter_context(mock.patch.object(TokenParser, "take", _nothing))
        stack.enter_context(mock.patch.object(RepeatedOps, "find", _nothing))
        stack.enter_context(mock.patch.object(RepeatedFunctions, "find", _nothing))
        stack.enter_context(mock.patch.object(verifier, "function_form", _nothing))
        stack.enter_context(mock.patch.object(verifier, "signature", _nothing))
        stack.enter_context(mock.patch.object(verifier, "region_signature", _nothing))
        yield


def outcome(text: str, printer: type[Printer] = SourcePrinter) -> tuple[str, ...]:
    """What becomes of a text: the diagnostic, or the module printed in three forms, names and locations included."""
    try:
        module, parser = parse(make_context(allow_unregistered=True), Input(text, "input.mlir"))
    except InputError as error:
        return ("not parsed", str(error.diagnostic))
    try:
        verifier.verify(module)
    except verifier.InvalidIR as error:
        return ("not valid", str(place_of_op(error.op, Place("?"), parser.positions)), error.op.name, str(error))
    locations = _printed(module, Printer, print_generic_format=True, print_debuginfo=True)
    positions = ", ".join(map(str, parser.positions.values()))
    return (_printed(module, printer), _printed(module, printer, print_generic_format=True), locations, positions)


def _printed(module: ModuleOp, cls: type[Printer], **flags: Any) -> str:
    stream = StringIO()
    try:
        cls(stream, **flags).print_op(module)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return stream.getvalue()


def expected(text: str) -> tuple[str, ...]:
    """The outcome by xDSL's functions."""
    with upstream():
        return outcome(text, Printer)
