"""graph-simplify-expr: products with matrices that an index chooses are one product, of the same values."""

import pytest
from graph_passes import names, optimize
from hypothesis import given, settings
from hypothesis import strategies as st

SIMPLIFY = "graph-simplify-expr"


def t(*shape, element="f32"):
    return f"tensor<{'x'.join(map(str, shape))}x{element}>"


def product(indices, matrices, rows, depth, outputs, left=False, turned=False, rows_turned=False):
    """Rows times the matrices that constant indices choose; the matrices on the left side take one column each."""
    picks = len(indices)
    matrix = (outputs, depth) if left != turned else (depth, outputs)
    x = (picks, depth, 1) if left else (picks, rows, depth)
    x = (*x[:1], *x[:0:-1]) if rows_turned else x
    y = (picks, outputs, 1) if left else (picks, rows, outputs)
    flags = {f"transpose_{'a' if left else 'b'}": turned, f"transpose_{'b' if left else 'a'}": rows_turned}
    attrs = ", ".join(f"{name} = {str(flag).lower()}" for name, flag in flags.items())
    chosen, w = t(picks, *matrix), t(matrices, *matrix)
    operands, types = ("%c, %x", f"{chosen}, {t(*x)}") if left else ("%x, %c", f"{t(*x)}, {chosen}")
    return f"""func.func @main(%x: {t(*x)}) -> {t(*y)} {{
      %w = graph.param "w" : {w}
      %i = graph.constant dense<{indices}> : {t(picks, element="i64")}
      %c = graph.take %w, %i {{axis = 0}} : ({w}, {t(picks, element="i64")}) -> {chosen}
      %y = graph.batch_matmul {operands} {{{attrs}}} : ({types}) -> {t(*y)}
      return %y : {t(*y)}
    }}"""


@settings(max_examples=80)
@given(st.data())
def test_the_values_stay(data):
    matrices, left = data.draw(st.integers(1, 5)), data.draw(st.booleans())
    indices = data.draw(st.lists(st.integers(-matrices - 2, matrices + 1), min_size=1, max_size=12))
    sizes = [data.draw(st.integers(1, 4)) for _ in range(3)]
    optimize(product(indices, matrices, *sizes, left, data.draw(st.booleans()), data.draw(st.booleans())), SIMPLIFY)


@pytest.mark.parametrize("left", [False, True])
def test_few_matrices_for_many_rows_are_one_product(left):
    found = names(optimize(product([0, 1, 2, 3] * 8, 4, 1, 5, 6, left), SIMPLIFY))
    assert "dense" in found
    assert "batch_matmul" not in found
    assert "take" not in found


@pytest.mark.parametrize("indices", [[3], [5, 9]])
def test_few_rows_copy_their_matrices(indices):
    assert "dense" not in names(optimize(product(indices, 16, 1, 5, 6), SIMPLIFY))
