"""IR as text that notebooks and terminals show in colour."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Protocol

from mlc.support.display.highlight import CSS, ansi, html

if TYPE_CHECKING:
    from rich.text import Text

SHOWN_LINES = 2000
"""How many lines of IR a notebook shows; the text itself has all."""


class Pretty(Protocol):
    """What IPython gives a `_repr_pretty_` to write to."""

    def text(self, text: str) -> None: ...


class IRText(str):
    """
    A string of IR: in a notebook, in IPython and for `rich.print` it is shown in colour, else it is a plain string.

    A notebook shows the first `SHOWN_LINES` lines of it.
    """

    __slots__ = ()

    def html(self) -> str:
        """The text as HTML with its style sheet."""
        return f'<style>{CSS}</style><pre class="mlc-ir">{html(_shown(self))}</pre>'

    def write_to(self, printer: Pretty) -> None:
        """Write the text as IPython shows it in a terminal."""
        printer.text(ansi(_shown(self)) if is_coloured() else _shown(self))

    def _repr_html_(self) -> str:
        return self.html()

    def _repr_pretty_(self, printer: Pretty, cycle: bool) -> None:
        self.write_to(printer)

    def __rich__(self) -> Text:
        from rich.text import Text

        return Text.from_ansi(ansi(_shown(self)))


def is_coloured() -> bool:
    """Whether the standard output is a terminal whose user has not refused colours (NO_COLOR)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _shown(text: str) -> str:
    """The lines that are shown, without a line break at the end."""
    lines = text.rstrip("\n").split("\n")
    more = len(lines) - SHOWN_LINES
    return "\n".join([*lines[:SHOWN_LINES], *([f"// ... and {more} more lines"] if more > 0 else [])])
