"""The highlighter knows the tokens of IR text, and loses no character of any text."""

import html as standard_html
import re

import pytest

from mlc.support.display import highlight

TEXT = """\
#map = affine_map<(d0) -> (d0 * 2)>
func.func @main(%x: tensor<1x784xf32, #graph.dims<[a, b]>>) -> tensor<0x4xf32> attributes {graph.kernel} { // <hi>
  %0:2, %b = graph.dense %x {axis = -1, s = "a<\\"b"} : (tensor<?xi8>) -> f32
  "test.op"(%0#1) ({
  ^bb0(%a: i32):
    return %a : i32
  }) {x = 1.5e-3} : () -> ()
  %k = loop.for %i = 0 to 4 iter_args(%n = %k) {
  }
}
"""


def kinds(text):
    found = {}
    for token in highlight.tokens(text):
        found.setdefault(token.kind, []).append(text[token.start : token.end])
    return found


def test_tokens_have_their_kinds():
    found = kinds(TEXT)
    assert found["op"] == ["func.func", "graph.dense", '"test.op"', "return", "loop.for"]
    assert found["value"] == ["%x", "%0", "%b", "%x", "%0#1", "%a", "%a", "%k", "%i", "%n", "%k"]
    assert found["type"] == ["tensor", "f32", "tensor", "f32", "tensor", "i8", "f32", "i32", "i32"]
    assert found["number"] == ["2", "1x784x", "0x4x", "2", "-1", "?x", "1.5e-3", "0", "4"]
    assert found["attribute"] == ["axis", "s", "x"]
    assert found["string"] == ['"a<\\"b"']
    assert found["comment"] == ["// <hi>"]
    assert found["alias"] == ["#map", "#graph.dims"]
    assert found["symbol"] == ["@main"]
    assert found["block"] == ["^bb0"]


@pytest.mark.parametrize("text", [TEXT, "", "\n\n", '"not closed\n%x', "é\u2028😀\x00", "%", "a = = {{{", TEXT[::-1]])
def test_no_character_is_lost(text):
    assert re.sub(r"\x1b\[\d*m", "", highlight.ansi(text)) == text
    assert standard_html.unescape(re.sub(r"<[^>]*>", "", highlight.html(text))) == text


def test_html_is_escaped_and_has_a_style_for_each_kind():
    made = highlight.html('%x = graph.relu "<script>"')
    assert "<script>" not in made
    assert '<span class="mlc-op">graph.relu</span>' in made
    assert all(f".mlc-{kind}" in highlight.CSS for kind in highlight.ANSI)
