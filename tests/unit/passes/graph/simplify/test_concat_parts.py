"""Parts of concatenations: they are taken from the operands, the values stay, and they run compiled."""

import numpy as np
import pytest
from graph_passes import names, optimize
from hypothesis import given, settings
from hypothesis import strategies as st

import mlc


def t(shape):
    return f"tensor<{'x'.join(map(str, shape))}xf32>"


@st.composite
def parts_of_a_concatenation(draw):
    """A concatenation of inputs and computed values, slices of it and perhaps a split."""
    rank = draw(st.integers(1, 3))
    axis = draw(st.integers(0, rank - 1))
    others = draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    shapes = [[*others[:axis], size, *others[axis + 1 :]] for size in sizes]
    total = [*others[:axis], sum(sizes), *others[axis + 1 :]]
    lines, operands, results = [], [], []
    for k, shape in enumerate(shapes):
        computed = draw(st.booleans())
        if computed:
            lines.append(f"%r{k} = graph.tanh %x{k} : {t(shape)}")
        operands.append(f"%r{k}" if computed else f"%x{k}")
    lines.append(
        f"%c = graph.concatenate {', '.join(operands)} {{axis = {axis}}} : ({', '.join(map(t, shapes))}) -> {t(total)}"
    )
    for k in range(draw(st.integers(0, 2))):
        begin = [draw(st.integers(0, n - 1)) for n in total]
        end = [draw(st.integers(b + 1, n)) for b, n in zip(begin, total, strict=True)]
        whole = draw(st.booleans())  # along the other axes
        begin = [b if i == axis or not whole else 0 for i, b in enumerate(begin)]
        end = [e if i == axis or not whole else n for i, (e, n) in enumerate(zip(end, total, strict=True))]
        strides = [draw(st.sampled_from([1, 1, 1, 2])) for _ in total]
        begin = [b - n if draw(st.booleans()) else b for b, n in zip(begin, total, strict=True)]
        spans = zip(begin, end, strides, total, strict=True)
        shape = [len(range(*slice(b, e, s).indices(n))) for b, e, s, n in spans]
        lines.append(
            f"%s{k} = graph.slice %c {{begin = {begin}, end = {end}, strides = {strides}}} : ({t(total)}) -> {t(shape)}"
        )
        results.append((f"%s{k}", t(shape)))
    if not results or draw(st.booleans()):
        cuts = sorted(draw(st.sets(st.integers(1, total[axis] - 1)))) if total[axis] > 1 else []
        sections = [b - a for a, b in zip([0, *cuts], [*cuts, total[axis]], strict=True)]
        types = [t([*total[:axis], n, *total[axis + 1 :]]) for n in sections]
        values = [f"%p{k}" for k in range(len(sections))]
        if len(sections) > 1:
            lines.append(
                f"{', '.join(values)} = graph.split %c {{axis = {axis}, sections = {sections}}}"
                f" : ({t(total)}) -> ({', '.join(types)})"
            )
            results += zip(values, types, strict=True)
        else:
            results.append(("%c", t(total)))
    arguments = ", ".join(f"%x{k}: {t(shape)}" for k, shape in enumerate(shapes))
    types = ", ".join(type for _, type in results)
    body = "\n".join(lines)
    values = ", ".join(value for value, _ in results)
    return f"func.func @main({arguments}) -> ({types}) {{\n{body}\nreturn {values} : {types}\n}}"


@settings(max_examples=200)
@given(parts_of_a_concatenation())
def test_parts_keep_their_values(text):
    optimize(text, "graph-canonicalize")


STATE = """func.func @main(%state: tensor<2x300x7xf32>, %x: tensor<2x20x7xf32>)
    -> (tensor<2x300x7xf32>, tensor<2x20x7xf32>) {
  %c = graph.concatenate %state, %x {axis = 1} : (tensor<2x300x7xf32>, tensor<2x20x7xf32>) -> tensor<2x320x7xf32>
  %new = graph.slice %c {begin = [0, -300, 0], end = [2, 320, 7], strides = [1, 1, 1]}
    : (tensor<2x320x7xf32>) -> tensor<2x300x7xf32>
  %y = graph.relu %x : tensor<2x20x7xf32>
  return %new, %y : tensor<2x300x7xf32>, tensor<2x20x7xf32>
}"""


def test_a_state_is_copied_without_what_it_forgets():
    assert names(optimize(STATE, "graph-canonicalize")) == ["slice", "concatenate", "relu"]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_state_compiled(tmp_path, threads):
    rng = np.random.default_rng(0)
    state, x = rng.normal(size=(2, 300, 7)).astype("f4"), rng.normal(size=(2, 20, 7)).astype("f4")
    (tmp_path / "model.mlir").write_text(STATE)
    exe = mlc.compile(tmp_path / "model.mlir", threads=threads, cache=False)
    new, y = exe({"input0": state, "input1": x}).values()
    np.testing.assert_array_equal(new, np.concatenate([state, x], 1)[:, -300:])
    np.testing.assert_array_equal(y, np.maximum(x, 0))
