"""Symbols of kernels' own: they say the same sizes, and their ranges hold what the caller can give them."""

import math

import numpy as np
import pytest
from graph_passes import kernels
from hypothesis import given, settings
from hypothesis import strategies as st

import mlc
from mlc.dialects.graph import DimExpr, SymbolAttr
from mlc.dialects.graph.dims import greatest, least
from mlc.dialects.syntax.source import parse_module
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.frontends.common.model import Model
from mlc.lowering.graph_to_te.kernel_sizes import kernel_symbols, size_attributes
from mlc.passes.graph.fusion.outline_kernels.symbols import UnknownSize, factored, span_of, symbols_for
from mlc.passes.rewriting import functions
from mlc.support.weights import WeightStore

NAMES = ("H", "W", "N")
symbols = st.sampled_from([DimExpr.symbol(name) for name in NAMES])
sizes = st.recursive(
    symbols,
    lambda inner: st.one_of(
        st.builds(lambda a, c: a * c, inner, st.integers(1, 6)),
        st.builds(lambda a, c: a + c, inner, st.integers(0, 9)),
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a * b, inner, inner),
        st.builds(lambda a, c: (a + 3) // c, inner, st.integers(1, 4)),
        st.builds(least, inner, inner),
        st.builds(greatest, inner, inner),
    ),
    max_leaves=4,
)
values = st.fixed_dictionaries({name: st.integers(1, 40) for name in NAMES})


@given(st.lists(sizes, min_size=1, max_size=5), values)
@settings(max_examples=150)
def test_rewritten_sizes_are_the_same(dims, numbers):
    found = symbols_for(dims)
    given_values = {f"s{k}": value.evaluate(numbers) for k, value in enumerate(found.values)}
    for dim in dims:
        if isinstance(dim, DimExpr):
            new = found.rewrite(dim)
            assert set(new.symbols()) <= given_values.keys()
            assert new.evaluate(given_values) == dim.evaluate(numbers)
            assert factored(dim)[0] == math.gcd(*(c for _, c in dim.terms))


@given(sizes, values, st.integers(1, 4))
@settings(max_examples=150)
def test_ranges_hold_all_values(size, numbers, step):
    if not isinstance(size, DimExpr):
        return
    numbers = {name: n * step for name, n in numbers.items()}
    span = span_of(size, {name: SymbolAttr(step, 40 * step, step) for name in NAMES})
    assert span.low.data <= size.evaluate(numbers)
    assert size.evaluate(numbers) <= max(span.high.data, (1 << 31) - 1 - span.step.data)
    assert size.evaluate(numbers) % span.step.data == 0
    assert span.low.data <= span.typical <= span.high.data


def test_names_do_not_matter():
    h, w, n = (DimExpr.symbol(name) for name in NAMES)
    first, second = symbols_for([h * 8, w // 4, h * 8 * n]), symbols_for([w * 8, n, w * 8 * h])
    assert [first.rewrite(s) for s in (h * 8, w // 4)] == [second.rewrite(s) for s in (w * 8, n)]
    assert first.rewrite(h * n * 8) == second.rewrite(w * h * 8)
    assert first.values == [h, DimExpr.of(w // 4), n]
    with pytest.raises(UnknownSize, match="W"):
        first.rewrite(w + 1)


def dims(*texts):
    return f"tensor<{'?x' * len(texts)}8xf32, #graph.dims<[{', '.join(texts)}]>>"


def test_the_least_of_a_size_is_not_where_its_symbols_are_least():
    a, b, c = dims("H"), dims("W"), dims("min(H - W, 20)")
    module = parse_module(
        f"""func.func @main(%x: {a}, %y: {b}, %z: {c}) -> ({a}, {b}, {c})
          attributes {{graph.symbols = {{H = #graph.symbol<20 to 100>, W = #graph.symbol<1 to 19>}}}} {{
          return %x, %y, %z : {a}, {b}, {c}
        }}""",
        "<test>",
    )
    (main,) = functions(module)
    attributes = size_attributes(main, kernel_symbols(main))
    assert attributes["least"].get_values() == (20, 1, 1)


def test_one_kernel_runs_at_each_of_its_sizes(tmp_path):
    """Two calls of one kernel with different sizes, one of which is computed, and a third with a product."""
    a, b, c = dims("H"), dims("H + 4"), dims("H * W")
    text = f"""func.func @main(%x: {a}, %y: {b}, %z: {c}, %w: {dims("W")}) -> ({a}, {b}, {c}) {{
      %0 = graph.softmax %x {{axis = 1}} : {a}
      %1 = graph.softmax %y {{axis = 1}} : {b}
      %2 = graph.softmax %z {{axis = 1}} : {c}
      return %0, %1, %2 : {a}, {b}, {c}
    }}"""
    module = parse_module(text, "<test>")
    run_passes(module, make_context(), ["graph-fuse-ops,graph-outline-kernels"], verify=True)
    assert len(kernels(module)) == 1
    exe = mlc.compile(Model(parse_module(text, "<test>"), WeightStore()), threads=1, cache=False)
    rng = np.random.default_rng(0)
    for h, w in [(1, 1), (5, 3), (64, 2)]:
        shapes = [(h, 8), (h + 4, 8), (h * w, 8), (w, 8)]
        arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
        got = exe({spec.name: x for spec, x in zip(exe.inputs, arrays, strict=True)})
        for x, y in zip(arrays, got.values(), strict=False):
            e = np.exp(x - x.max(1, keepdims=True))
            np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5)
