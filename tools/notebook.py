"""
Notebooks: `%load_ext mlc` lets IPython show any operation of xDSL as highlighted IR; `mlc.show` does it for one.

xDSL's classes stay as they are: IPython is told how to show them, by the name of their base class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from mlc.support.display.ir_text import IRText, Pretty
from mlc.support.errors import UserError

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from mlc.frontends.common.model import Model

_BASE = "xdsl.ir.core", "Operation"
_MIME_TYPES = "text/html", "text/plain"


class Formatter(Protocol):
    """The part of IPython's formatters that is used here."""

    def for_type_by_name(self, type_module: str, type_name: str, func: Callable[..., Any]) -> object: ...

    def pop(self, typ: str, default: object) -> object: ...


def show(source: Model | Operation | str, nodes: bool = False) -> IRText:
    """
    A model, an operation or a text of IR as text that notebooks and terminals show in colour: `mlc.show(model)`.

    With `nodes` each op ends with the source nodes that it computes. Raises UserError for anything else.
    """
    from xdsl.ir import Operation

    from mlc.dialects.syntax.source_nodes import ir_text

    if isinstance(source, str):
        return IRText(source)
    op: object = getattr(source, "module", source)
    if not isinstance(op, Operation):
        raise UserError(f"expected a model, an operation or a text of IR to show, but got {type(source).__name__}")
    return IRText(ir_text(op, nodes=nodes))


def as_html(op: Operation) -> str:
    """An operation as HTML: what a notebook shows of it."""
    return show(op).html()


def as_plain(op: Operation, printer: Pretty, cycle: bool) -> None:
    """Write an operation as IPython shows it in a terminal."""
    show(op).write_to(printer)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext mlc`: let this shell of IPython show operations as highlighted IR."""
    for mime_type, function in zip(_MIME_TYPES, (as_html, as_plain), strict=True):
        formatter: Formatter = shell.display_formatter.formatters[mime_type]
        formatter.for_type_by_name(*_BASE, function)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext mlc`: let it show them as before."""
    for mime_type in _MIME_TYPES:
        formatter: Formatter = shell.display_formatter.formatters[mime_type]
        formatter.pop(".".join(_BASE), None)
