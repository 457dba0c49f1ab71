"""Notebooks and terminals show modules as highlighted IR."""

import html
import re
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console
from xdsl.dialects.builtin import ModuleOp

import mlc
from mlc.dialects.syntax.source import parse_module
from mlc.frontends.common.model import Model
from mlc.support.display import ir_text
from mlc.support.display.ir_text import IRText
from mlc.support.errors import UserError
from mlc.support.weights import WeightStore
from mlc.tools.notebook import as_html

TEXT = """\
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.relu %x : tensor<4xf32> loc("act<1>")
  return %0 : tensor<4xf32>
}
"""


def plain(made):
    """The text in a piece of HTML."""
    return html.unescape(re.sub(r"<style>.*?</style>|<[^>]*>", "", made, flags=re.DOTALL))


def test_an_operation_is_shown_as_highlighted_ir():
    module = parse_module(TEXT)
    made = as_html(module)
    assert plain(made) == str(module)
    assert '<span class="mlc-op">graph.relu</span>' in made
    assert ".mlc-op {" in made


def test_a_model_is_shown_with_its_source_nodes():
    made = Model(parse_module(TEXT), WeightStore())._repr_html_()
    assert "%0 = graph.relu %x : tensor<4xf32>  // node: act<1>" in plain(made)
    assert "act<1>" not in made, "it is escaped"


def test_show_takes_models_operations_and_texts():
    module = parse_module(TEXT)
    assert mlc.show(module) == mlc.show(Model(module, WeightStore())) == str(module)
    assert mlc.show(TEXT) == TEXT
    assert "// node: act<1>" in mlc.show(module, nodes=True)
    assert isinstance(mlc.show(TEXT), IRText)
    with pytest.raises(UserError, match="expected a model, an operation or a text of IR to show, but got int"):
        mlc.show(3)


def test_the_text_of_an_operator_is_shown_in_colour():
    operator = mlc.build(
        "te.func @k(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        '%y = te.compute "y" (%i : 4) {\n%0 = te.read %x[%i] : f32\nte.yield %0 : f32\n} : tensor<4xf32>\n'
        "te.return %y : tensor<4xf32>\n}",
        threads=1,
    )
    assert '<span class="mlc-op">te.compute</span>' in operator.text("te")._repr_html_()


def test_a_long_text_is_cut():
    text = IRText("graph.relu\n" * (ir_text.SHOWN_LINES + 3))
    assert plain(text._repr_html_()).endswith("graph.relu\n// ... and 3 more lines")
    assert len(text.splitlines()) == ir_text.SHOWN_LINES + 3


def test_terminals_have_colours(monkeypatch):
    module = mlc.show(parse_module(TEXT))
    console = Console(force_terminal=True, width=200, color_system="standard")
    with console.capture() as capture:
        console.print(module)
    assert "\x1b[34mgraph.relu\x1b[0m" in capture.get()

    def pretty():
        written = []
        module._repr_pretty_(SimpleNamespace(text=written.append), False)
        return "".join(written)

    assert pretty() == module
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(isatty=lambda: True))
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[34mgraph.relu\x1b[0m" in pretty()
    monkeypatch.setenv("NO_COLOR", "1")
    assert pretty() == module


def test_load_ext_registers_formatters_by_name():
    """Without IPython: what it is told."""
    registered = {}

    class Formatter:
        def __init__(self, kind):
            self.kind = kind

        def for_type_by_name(self, module, name, function):
            registered[self.kind, f"{module}.{name}"] = function

        def pop(self, name, default):
            registered.pop((self.kind, name), default)

    formatters = {kind: Formatter(kind) for kind in ("text/html", "text/plain")}
    shell = SimpleNamespace(display_formatter=SimpleNamespace(formatters=formatters))
    mlc.load_ipython_extension(shell)
    base = next(cls for cls in ModuleOp.__mro__ if cls.__name__ == "Operation")
    name = f"{base.__module__}.{base.__name__}"
    assert set(registered) == {("text/html", name), ("text/plain", name)}
    module = parse_module(TEXT)
    assert plain(registered["text/html", name](module)) == str(module)
    mlc.unload_ipython_extension(shell)
    assert registered == {}


@pytest.mark.tools
def test_ipython_shows_modules_after_load_ext():
    interactive = pytest.importorskip("IPython.core.interactiveshell", reason="IPython is not installed")
    shell = interactive.InteractiveShell.instance()
    module = parse_module(TEXT)

    def formatted():
        return shell.display_formatter.format(module)[0]

    assert "text/html" not in formatted()
    shell.run_line_magic("load_ext", "mlc")
    assert plain(formatted()["text/html"]) == str(module) == formatted()["text/plain"]
    assert "text/html" in shell.display_formatter.format(module.body.block.first_op)[0], "every operation"
    shell.run_line_magic("unload_ext", "mlc")
    assert "text/html" not in formatted()
    assert isinstance(module, ModuleOp)
