"""Size expressions: one canonical form, and the arithmetic of integers."""

import pickle
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from size_expressions import build, expressions
from xdsl.dialects.builtin import f32
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph.compare import compare_sizes
from mlc.dialects.graph.dims import DimExpr, SymbolAttr, bounds_between, least, simplify
from mlc.dialects.graph.types import broadcast, shape_of, tensor
from mlc.driver.pipeline.registry import make_context

H, W = DimExpr.symbol("H"), DimExpr.symbol("W")


def test_equal_expressions_are_equal_objects():
    assert (H + 1) * 2 - 2 == H * 2
    assert (4 * H + 6) // 4 == H + 1 + (2 * 0)
    assert (2 * H + 2) // 4 == (H + 1) // 2
    assert ((H + 1) // 2 + 1) // 2 == (H + 3) // 4
    assert H * W == W * H
    assert H - H == 0
    assert (H + 5) % 1 == 0
    assert hash(H + W) == hash(W + H)


def test_a_divisor_of_a_symbol_simplifies():
    assert str(simplify((H + 1) // 2, {"H": 32})) == "H floordiv 2"
    assert simplify((H + 1) // 2, {}) == (H + 1) // 2
    assert simplify(((H + 1) // 2 - 1) // 2 + 1, {"H": 4}) == simplify(H // 4, {"H": 4})


def test_reshape_quotients():
    assert (H * W * 6) // (H * 2) == W * 3
    with pytest.raises(VerifyException, match="expected H \\+ 1 to be a multiple of W"):
        (H + 1) // W


def test_division_by_zero_is_an_error():
    with pytest.raises(VerifyException, match="expected a positive divisor, but got H floordiv 0"):
        H // 0


@settings(max_examples=150)
@given(expressions, st.integers(0, 60), st.integers(0, 60))
def test_expressions_compute_like_integers(tree, h, w):
    expr = build(tree, {"H": H, "W": W})
    wanted = build(tree, {"H": 4 * h, "W": w})
    values = {"H": 4 * h, "W": w}
    assert DimExpr.of(expr).evaluate(values) == wanted
    assert DimExpr.of(simplify(expr, {"H": 4})).evaluate(values) == wanted


@settings(max_examples=150)
@given(expressions, st.integers(1, 40), st.integers(0, 30), st.integers(0, 30))
def test_ends_of_symbols_keep_values(tree, low, span, place):
    expr = build(tree, {"H": DimExpr.symbol("H", low, low + span), "W": W})
    values = {"H": low + min(place, span), "W": 7}
    assert DimExpr.of(expr).evaluate(values) == build(tree, values)


def test_ends_decide_divisions_and_comparisons():
    h = DimExpr.symbol("H", 33, 80)
    assert (h + 15) // 48 == 1
    assert h % 128 == h
    assert min(h, 90) == h
    assert max(h, 20) == h
    assert h.bounds() == (33, 80)
    assert h == H
    assert pickle.loads(pickle.dumps(h)).bounds() == (33, 80)
    type = tensor((h, (h + 1) // 2), f32)
    assert str(type) == "tensor<?x?xf32, #graph.dims<[H<33 to 80>, (H<33 to 80> + 1) floordiv 2]>>"


@pytest.mark.parametrize(
    "size",
    [-(H // 3) + W, -(H // 3) * 2 + W, -((H * W) // 5), W - H // 3, (H * 2 // 5) // 2, -((least(H, W) + 1) // 2) + H],
)
def test_text_is_read_as_what_was_written(size):
    type = tensor((size,), f32)
    assert Parser(make_context(), str(type)).parse_type() == type


@settings(max_examples=150)
@given(expressions)
def test_text_says_all(tree):
    type = tensor((build(tree, {"H": H, "W": W}) + H * 7 * W * H,), f32)
    assert Parser(make_context(), str(type)).parse_type() == type


def test_a_quotient_of_a_quotient_is_one():
    assert (H * 2 // 5) // 2 == H // 5
    assert ((H * 2 + 2) // 5) // 2 == (H + 1) // 5


def test_a_least_size_may_be_negative():
    below = least(H - W, 3)
    assert below.bounds() == (-inf, 3)
    assert (below * W).bounds() == (-inf, inf)
    assert (below // 4).evaluate({"H": 1, "W": 9}) == -2
    assert bounds_between(least(H - W, 20), {"H": (20, 100), "W": (1, 19)}) == (1, 20)
    with pytest.raises(VerifyException, match="expected sizes that compare whatever they are"):
        _ = below < 0


def test_types_hold_symbolic_sizes():
    type = tensor((1, H, (W + 1) // 2), f32)
    assert str(type) == "tensor<1x?x?xf32, #graph.dims<[H, (W + 1) floordiv 2]>>"
    assert shape_of(type) == (1, H, (W + 1) // 2)
    assert broadcast([(H, 1), (1, W), (1,)]) == (H, W)
    with pytest.raises(VerifyException, match="axis 0 is H in one and W in another"):
        broadcast([(H,), (W,)])


def test_equal_sizes_may_have_two_canonical_forms():
    assert H - H // 2 != (H + 1) // 2
    assert compare_sizes(H - H // 2, (H + 1) // 2, {}) == (True, None)
    assert compare_sizes(H * W - H * W // 2, (H * W + 1) // 2, {}) == (True, None)
    assert compare_sizes(3, 3, {}) == compare_sizes(H, H, {}) == (True, None)
    assert compare_sizes(H, H + 1, {}) == compare_sizes(3, 4, {}) == (False, {})
    assert compare_sizes(H // 2 * 2, H, {}) == (False, {"H": 1})
    assert compare_sizes(H, 8, {"H": SymbolAttr(8, 8)}) == (True, None)
    assert compare_sizes((H + 31) // 32, H // 32, {"H": SymbolAttr(32, 1 << 40, 32)}) == (True, None)
    assert compare_sizes((H + 31) // 32, H // 32, {"H": SymbolAttr(32, 1 << 40, 16)}) == (False, {"H": 48})
    assert compare_sizes(DimExpr.symbol("H", 20, 30) // 20, 1, {}) == (True, None)


def test_sizes_with_minima_are_decided_in_short_ranges_only():
    assert compare_sizes(least(H, 1000), H, {"H": SymbolAttr(1, 500)}) == (True, None)
    assert compare_sizes(least(H, 1000), H, {"H": SymbolAttr(1, 2000)}) == (False, {"H": 1001})
    assert compare_sizes(least(H, 100), H, {}) == (False, {"H": 101})
    assert compare_sizes(least(H, 1 << 20), H, {}) == (False, None)
    assert compare_sizes(least(H, W), least(W, H), {}) == (True, None)


@settings(max_examples=150)
@given(expressions, expressions, st.integers(1, 60), st.integers(1, 60))
def test_a_verdict_on_two_sizes_is_right(tree, other, h, w):
    a, b = (build(t, {"H": H, "W": W}) for t in (tree, other))
    verdict = compare_sizes(a, b, {})
    values = {"H": h, "W": w} if verdict.equal else {"H": 1, "W": 1} | (verdict.at or {})
    if verdict.equal or verdict.at is not None:
        assert (build(tree, values) == build(other, values)) == verdict.equal
    assert compare_sizes(a, a + (H - H // 3) * W - (H * 2 + 2) // 3 * W, {}) == (True, None)
