"""Memory of symbolic sizes: buffers that are alive together never overlap; size expressions compute."""

from hypothesis import given, settings
from hypothesis import strategies as st
from size_expressions import build, expressions
from xdsl.dialects.builtin import i8

from mlc.dialects.graph.dims import DimExpr
from mlc.driver.describe.symbolic import encoded
from mlc.driver.export.sizes import SizeFunctionWriter
from mlc.lowering.graph_to_main.storage import Storage
from mlc.lowering.graph_to_main.symbolic import aligned, ordered
from mlc.runtime.sizes import Sizes, evaluate

H, W = DimExpr.symbol("H"), DimExpr.symbol("W")
factors = st.sampled_from([1, 4, H, W, (H + 1) // 2, (W - 1) // 3 + 1, H * W, H + W])
buffers = st.lists(
    st.tuples(st.integers(1, 300), factors, factors, st.integers(0, 12), st.integers(0, 8)), min_size=1, max_size=14
)
numbers = st.integers(1, 400)


@settings(max_examples=100)
@given(buffers, st.tuples(numbers, numbers), st.lists(st.tuples(numbers, numbers), min_size=1, max_size=4))
def test_live_buffers_do_not_overlap_at_any_sizes(rows, typical, calls):
    made = [Storage((n, a, b), i8) for n, a, b, _, _ in rows]
    for storage, (*_, first, length) in zip(made, rows, strict=True):
        storage.first, storage.last = first, first + length
    order, below = ordered(made, dict(zip("HW", typical, strict=True)))
    assert sorted(map(id, order)) == sorted(map(id, made))
    model = {
        "symbols": [["H", 1, 400, 1], ["W", 1, 400, 1]],
        "inputs": [["x", [encoded(H), encoded(W)], "float32"]],
        "outputs": [],
        "buffers": [[encoded(aligned(s.bytes)), places] for s, places in zip(order, below, strict=True)],
    }
    sizes = Sizes(model)
    for values in calls:
        bound = sizes.bind([values])
        known = dict(zip("HW", values, strict=True))
        spans = [(at, at + DimExpr.of(s.bytes).evaluate(known)) for at, s in zip(bound.offsets, order, strict=True)]
        for k, (a, (begin, end)) in enumerate(zip(order, spans, strict=True)):
            assert begin % 64 == 0
            assert end <= bound.bytes
            for b, (start, stop) in list(zip(order, spans, strict=True))[:k]:
                together = a.first <= b.last and b.first <= a.last
                assert not together or end <= start or stop <= begin


def interpreted(writer: SizeFunctionWriter, result: str, known: dict[str, int]) -> int:
    """What straight-line i64 code computes."""
    values = dict(known)

    def value(text: str) -> int:
        return values[text] if text.startswith("%") else int(text)

    def cut(a: int, b: int) -> int:
        return abs(a) // b * (1 if a >= 0 else -1)

    rules = {
        "add": lambda a, b: a + b,
        "mul": lambda a, b: a * b,
        "sdiv": cut,
        "srem": lambda a, b: a - b * cut(a, b),
        "ashr": lambda a, b: a >> b,
    }
    for line in writer.lines:
        name, _, op, _, x, y = line.replace(",", "").split()
        values[name] = rules[op](value(x), value(y))
    return value(result)


@settings(max_examples=150)
@given(expressions, st.integers(1, 60), st.integers(1, 60))
def test_sizes_are_the_same_in_the_importer_the_runtime_and_c(tree, h, w):
    expr = DimExpr.of(build(tree, {"H": H, "W": W}))
    wanted = build(tree, {"H": h, "W": w})
    size = encoded(expr.evaluate({}))
    assert evaluate(size, {"H": h, "W": w}) == wanted
    writer = SizeFunctionWriter({"H": "%h", "W": "%w"})
    assert interpreted(writer, writer.size(size), {"%h": h, "%w": w}) == wanted


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(-5, 5), factors, factors, st.integers(1, 7)), max_size=4), numbers, numbers)
def test_bounds_hold_every_value(rows, h, w):
    expr = DimExpr.of(sum((n * (a * b // d) for n, a, b, d in rows), 0))
    low, high = expr.bounds()
    assert low <= expr.evaluate({"H": h, "W": w}) <= high


def test_bounds_of_floor_divisions():
    assert (H // 2).bounds() == (0, float("inf"))
    assert ((H + 3) // 2 - W).bounds() == (-float("inf"), float("inf"))
    assert (H + 3) // 2 > 1
