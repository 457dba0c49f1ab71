"""te.scan: recurrences on every level, and what is refused."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_schedules import OPERATORS, RandomSchedule, check_values, expected, inputs
from te_kernels import KERNELS
from te_levels import check_levels

import mlc
from mlc.driver.models.load import parse_module
from mlc.interp import loop as loop_interpreter
from mlc.interp import te as interpreter
from mlc.support.errors import UserError, collected_warnings

te = mlc.te
STEPS, BATCH, WIDTH = 6, 3, 19


def values(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def cumulative_sum(steps, width):
    x, s = te.placeholder((steps, width), name="x"), te.placeholder((steps, width), name="s")
    first = te.compute((1, width), lambda t, i: x[0, i], "first")
    following = te.compute((steps, width), lambda t, i: s[t - 1, i] + x[t, i], "following")
    return x, te.scan(first, following, s, inputs=[x])


def test_a_cumulative_sum():
    x, sums = cumulative_sum(16, 37)
    a = values(16, 37)
    check_levels(te.func("sums", [x], [sums]), [a], [np.cumsum(a, 0)])


def test_an_open_number_of_steps():
    x, sums = cumulative_sum(te.var("n"), te.var("m"))
    func = te.func("open_sums", [x], [sums])
    operator = mlc.build(func, threads=2)
    for shape in ((1, 1), (2, 5), (9, 40)):
        a = values(*shape)
        np.testing.assert_allclose(interpreter.run(func, [a, *shape])[0], np.cumsum(a, 0), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(operator(a), np.cumsum(a, 0), rtol=1e-5, atol=1e-5)


def sigmoid(x):
    return 1.0 / (1.0 + te.exp(-x))


def test_an_lstm_cell_over_time():
    shape = (STEPS, BATCH, WIDTH)
    x = te.placeholder((STEPS, BATCH, 4 * WIDTH), name="x")
    w = te.placeholder((4 * WIDTH, WIDTH), name="w")
    h, c = te.placeholder(shape, name="h"), te.placeholder(shape, name="c")
    k = te.reduce_axis(WIDTH, "k")
    product = te.compute(x.shape, lambda t, n, j: te.sum(h[t - 1, n, k] * w[j, k], axis=k), "product")
    gates = te.compute(x.shape, lambda t, n, j: product[t, n, j] + x[t, n, j], "gates")
    cell = te.compute(
        shape,
        lambda t, n, j: (
            sigmoid(gates[t, n, WIDTH + j]) * c[t - 1, n, j]
            + sigmoid(gates[t, n, j]) * te.tanh(gates[t, n, 2 * WIDTH + j])
        ),
        "cell",
    )
    hidden = te.compute(shape, lambda t, n, j: sigmoid(gates[t, n, 3 * WIDTH + j]) * te.tanh(cell[t, n, j]), "hidden")
    start = te.placeholder((1, BATCH, WIDTH), name="start")
    hs, cs = te.scan([start, start], [hidden, cell], [h, c], inputs=[x, w], name="lstm")
    arrays = [values(*x.shape), values(*w.shape, seed=1) / 4, values(1, BATCH, WIDTH, seed=2)]
    check_levels(te.func("lstm", [x, w, start], [hs, cs]), arrays, lstm(*arrays), tolerance=1e-4)


def lstm(x, w, start):
    hs, cs = [start[0]], [start[0]]
    for t in range(1, STEPS):
        i, f, g, o = np.split(hs[-1] @ w.T + x[t], 4, 1)
        i, f, o = (1 / (1 + np.exp(-v)) for v in (i, f, o))
        cs.append(f * cs[-1] + i * np.tanh(g))
        hs.append(o * np.tanh(cs[-1]))
    return np.stack(hs), np.stack(cs)


def online_softmax(queries, blocks, block, width):
    """Attention: the running maximum, the running sum and the weighted values, states of differing shapes."""
    q = te.placeholder((queries, width), name="q")
    keys, vals = (te.placeholder((blocks, block, width), name=name) for name in ("keys", "vals"))
    steps = blocks + 1
    m, l = te.placeholder((steps, queries), name="m"), te.placeholder((steps, queries), name="l")  # noqa: E741
    o = te.placeholder((steps, queries, width), name="o")
    d, s, r, p = (te.reduce_axis(n, name) for n, name in ((width, "d"), (block, "s"), (block, "r"), (block, "p")))
    scores = te.compute(
        (steps, queries, block),
        lambda b, i, j: te.sum(q[i, d] * te.if_then_else(b >= 1, keys[b - 1, j, d], 0.0), axis=d),
        "scores",
    )
    most = te.compute((steps, queries), lambda b, i: te.max(scores[b, i, s], axis=s), "most")
    new_m = te.compute((steps, queries), lambda b, i: te.maximum(most[b, i], m[b - 1, i]), "new_m")
    weights = te.compute((steps, queries, block), lambda b, i, j: te.exp(scores[b, i, j] - new_m[b, i]), "weights")
    scale = te.compute((steps, queries), lambda b, i: te.exp(m[b - 1, i] - new_m[b, i]), "scale")
    part = te.compute((steps, queries), lambda b, i: te.sum(weights[b, i, r], axis=r), "part")
    new_l = te.compute((steps, queries), lambda b, i: l[b - 1, i] * scale[b, i] + part[b, i], "new_l")
    product = te.compute(
        (steps, queries, width),
        lambda b, i, j: te.sum(weights[b, i, p] * te.if_then_else(b >= 1, vals[b - 1, p, j], 0.0), axis=p),
        "product",
    )
    new_o = te.compute(
        (steps, queries, width), lambda b, i, j: o[b - 1, i, j] * scale[b, i] + product[b, i, j], "new_o"
    )
    lowest = te.compute((1, queries), lambda b, i: te.cast(b, "float32") - 1e30, "lowest")
    zero = te.compute((1, queries), lambda b, i: te.cast(b, "float32"), "zero")
    zeros = te.compute((1, queries, width), lambda b, i, j: te.cast(b, "float32"), "zeros")
    _, ls, os = te.scan([lowest, zero, zeros], [new_m, new_l, new_o], [m, l, o], name="online")
    out = te.compute((queries, width), lambda i, j: os[blocks, i, j] / ls[blocks, i], "out")
    return te.func("attention", [q, keys, vals], [out])


def test_an_online_softmax_over_blocks_of_keys():
    q, keys, vals = values(6, 16), values(4, 5, 16, seed=1), values(4, 5, 16, seed=2)
    e = q @ keys.reshape(-1, 16).T
    e = np.exp(e - e.max(1, keepdims=True))
    wanted = e / e.sum(1, keepdims=True) @ vals.reshape(-1, 16)
    operator = check_levels(online_softmax(6, 4, 5, 16), [q, keys, vals], [wanted])
    assert "vector<" in operator.text("loop")


def test_two_first_steps_and_states_of_one_update():
    x = te.placeholder((7, 4), name="x")
    a, b = te.placeholder((7, 4), name="a"), te.placeholder((7, 4), name="b")
    first = te.compute((2, 4), lambda t, i: x[t, i], "first")
    update = te.compute((7, 4), lambda t, i: a[t - 1, i] + b[t - 2, 3 - i] + te.cast(t, "float32"), "update")
    func = te.func("both", [x], list(te.scan([first, first], [update, update], [a, b])))
    v = np.round(values(7, 4) * 4)
    wanted = list(v[:2])
    for t in range(2, 7):
        wanted.append(wanted[t - 1] + wanted[t - 2][::-1] + t)
    check_levels(func, [v], [np.stack(wanted)] * 2)


def filtered(n, width, taps):
    """An autoregressive filter: each step sums as many steps back as there are taps."""
    x, s, c = (
        te.placeholder((n, width), name="x"),
        te.placeholder((n, width), name="s"),
        te.placeholder((taps,), name="c"),
    )
    j = te.reduce_axis(taps, "j")
    total = te.compute((n, width), lambda t, i: te.sum(s[t - 1 - j, i] * c[j], axis=j), "total")
    y = te.compute((n, width), lambda t, i: total[t, i] + x[t, i], "y")
    return te.func("ar", [x, c], [te.scan(te.compute((taps, width), lambda t, i: x[t, i], "first"), y, s)])


def filter_steps(x, c):
    ys = list(x[: len(c)])
    for t in range(len(c), len(x)):
        ys.append(sum(ys[t - 1 - j] * c[j] for j in range(len(c))) + x[t])
    return np.stack(ys)


def test_reads_of_several_steps_back():
    arrays = [values(12, 16), values(3, seed=1) / 2]
    check_levels(filtered(12, 16, 3), arrays, [filter_steps(*arrays)], tolerance=1e-4)
    operator = mlc.build(filtered(te.var("n", 3, 100), 16, 3), threads=2)
    for n in (3, 5, 40):
        arrays = [values(n, 16), values(3, seed=1) / 2]
        np.testing.assert_allclose(operator(*arrays), filter_steps(*arrays), rtol=1e-3, atol=1e-4)


def with_history(n, width, direct):
    """Each step adds halves of all steps before; `direct`: the state is the reduction itself."""
    x, s, j = te.placeholder((n, width), name="x"), te.placeholder((n, width), name="s"), te.reduce_axis(n, "j")

    def before(t, i):
        return te.sum(te.if_then_else(j < t, s[j, i] * 0.5, 0.0), axis=j)

    up = te.compute((n, width), before, "up")
    y = up if direct else te.compute((n, width), lambda t, i: up[t, i] + x[t, i], "y")
    return te.func("history", [x], [te.scan(te.compute((1, width), lambda t, i: x[t, i], "first"), y, s)])


@pytest.mark.parametrize("direct", [False, True])
def test_reads_of_all_earlier_steps(direct):
    def wanted(x):
        ys = [x[0]]
        for t in range(1, len(x)):
            ys.append(sum(ys) / 2 + (0 if direct else x[t]))
        return np.stack(ys)

    a = np.round(values(7, 32) * 4)
    text = str(
        parse_module(str(with_history(7, 32, direct)), "test").body.block.first_op
    )  # masks in the parser's order
    check_levels(parse_module(text, "test").body.block.first_op, [a], [wanted(a)])
    operator = mlc.build(with_history(te.var("n"), 32, direct), threads=2)
    for n in (1, 2, 9):
        a = np.round(values(n, 32) * 4)
        np.testing.assert_array_equal(operator(a), wanted(a))


def test_a_stage_whose_points_depend_on_each_other_is_left_as_it_is():
    """In IR the state may be such a reduction itself; the strategy does not try to reorder it."""
    text = str(with_history(6, 8, False)).replace("te.yield %y :", "te.yield %up :")
    text = re.sub(r" *%y = te.compute .*?\} : tensor<6x8xf32>\n", "", text, flags=re.DOTALL)
    a, ys = np.round(values(6, 8) * 4), []
    for t in range(6):
        ys.append(sum(ys) / 2 if t else a[0])
    np.testing.assert_array_equal(mlc.build(text, threads=1)(a), np.stack(ys))


def test_steps_that_a_condition_guards():
    x, s = te.placeholder((6, 4), name="x"), te.placeholder((6, 4), name="s")
    update = te.compute((6, 4), lambda t, i: te.if_then_else(t >= 3, s[t - 3, i], 0.0) + x[t, i], "update")
    func = te.func("guarded", [x], [te.scan(te.compute((1, 4), lambda t, i: x[t, i], "first"), update, s)])
    a, wanted = np.round(values(6, 4) * 4), []
    for t in range(6):
        wanted.append(a[t] + (wanted[t - 3] if t >= 3 else 0))
    check_levels(func, [a], [np.stack(wanted)])


def test_the_first_step_at_every_step():
    n, w = 8, 4
    x, s = te.placeholder((n, w), name="x"), te.placeholder((n, w), name="s")
    update = te.compute((n, w), lambda t, i: s[t - 1, i] + s[0, i] * 2.0, "update")
    func = te.func("first", [x], [te.scan(te.compute((1, w), lambda t, i: x[0, i], "first"), update, s)])
    a = np.round(values(n, w) * 4)
    check_levels(func, [a], [a[0] + 2 * a[0] * np.arange(n, dtype=np.float32)[:, None]])


@pytest.mark.parametrize("steps", [9, te.var("steps")])
def test_from_the_last_step_to_the_first(steps):
    x, s = te.placeholder((steps, 4), name="x"), te.placeholder((steps, 4), name="s")
    first = te.compute((1, 4), lambda t, i: x[steps - 1, i], "first")
    sums = te.scan(first, te.compute((steps, 4), lambda t, i: s[t - 1, i] + x[steps - 1 - t, i], "next"), s)
    func = te.func("backward", [x], [te.compute((steps, 4), lambda t, i: sums[steps - 1 - t, i], "turned")])
    operator = mlc.build(func)
    for n in (9,) if steps == 9 else (1, 2, 9):
        a = np.round(values(n, 4) * 4)
        np.testing.assert_array_equal(operator(a), np.cumsum(a[::-1], 0)[::-1])


def between(n=8, width=64):
    x, s = te.placeholder((n, width), name="x"), te.placeholder((n, width), name="s")
    mid = te.compute((n, width), lambda t, i: s[t - 1, i] * 2.0, "mid")
    end = te.compute((n, width), lambda t, i: mid[t, i] + x[t, i], "end")
    return te.func("f", [x], [te.scan(te.compute((1, width), lambda t, i: x[t, i], "first"), end, s)])


MOVES = {
    "inline": lambda s: s.compute_inline(s["mid"]),
    "at the elements": lambda s: s.compute_at(s["mid"], s.loops(s["end"])[1]),
    "behind its producer": lambda s: s.reverse_compute_at(s["end"], s.loops(s["mid"])[1]),
    "steps split and unrolled": lambda s: s.unroll(s.split(s.loops(s["end"])[0], [None, 4])[1]),
    "a copy of the state": lambda s: s.cache_read(s["end"], 1, "local"),
}


@pytest.mark.parametrize("move", MOVES)
def test_stages_of_a_step_move_beside_the_one_that_writes_the_state(move):
    s = mlc.Schedule(between())
    MOVES[move](s)
    a = np.round(values(8, 64) * 4)
    wanted = [a[0]]
    for t in range(1, 8):
        wanted.append(wanted[-1] * 2 + a[t])
    np.testing.assert_array_equal(mlc.build(s, threads=2)(a), np.stack(wanted))


def test_a_stage_is_not_computed_at_other_steps_than_its_own():
    """A copy of all steps reads of it what other steps have written, or will."""
    s = mlc.Schedule(between())
    s.cache_write(s["mid"], "shared")
    refused = 'block "end" writes %s, which block "mid" reads, behind the place'
    with pytest.raises(UserError, match=refused):
        s.compute_inline(s["mid"])
    with pytest.raises(UserError, match=refused):
        s.compute_at(s["mid"], s.loops(s["mid_shared"])[1])


def test_a_stage_does_not_move_behind_what_overwrites_its_input():
    """One buffer of one step, which the next stage writes again, in loops by hand."""
    s = mlc.Schedule(OVERWRITTEN)
    with pytest.raises(UserError, match=r'block "late" writes %b, which block "early" reads, behind the place'):
        s.compute_at(s["early"], s.loops(s["use"])[1])
    with pytest.raises(UserError, match=r'block "late" writes %b, which block "early" reads, behind the place'):
        s.compute_inline(s["early"])


def block(name, n, body, at="%i"):
    return f"""loop.for {at} = 0 to {n} {{
      loop.block "{name}" (%v : {n} = {at}) {{
        {body}
      }}
    }}"""


OVERWRITTEN = f"""
loop.func @f(%x: memref<4x8xf32>, %b: memref<8xf32>, %y: memref<4x8xf32>) attributes {{outputs = 2 : i64}} {{
  %c = loop.alloc "shared" : memref<8xf32>
  %z = arith.constant 1.0 : f32
  {block("start", 8, "loop.store %z, %b[%v] : f32")}
  loop.for %t = 0 to 4 {{
    {block("early", 8, "%l = loop.load %b[%v] : f32  loop.store %l, %c[%v] : f32")}
    {block("late", 8, "loop.store %z, %b[7 - %v] : f32")}
    {block("use", 8, "%l = loop.load %c[%v] : f32  loop.store %l, %y[0, %v] : f32")}
  }}
}}
"""


def test_a_scan_reads_another_one():
    x, sums = cumulative_sum(5, 8)
    s = te.placeholder((5, 8), name="again")
    first = te.compute((1, 8), lambda t, i: sums[4, i], "start")
    again = te.scan(first, te.compute((5, 8), lambda t, i: s[t - 1, i] * 2.0 - sums[t, i], "next"), s, name="again")
    v = np.round(values(5, 8) * 4)
    total = np.cumsum(v, 0)
    wanted = [total[4]]
    for t in range(1, 5):
        wanted.append(wanted[-1] * 2 - total[t])
    check_levels(te.func("twice", [x], [again, sums]), [v], [np.stack(wanted), total])


@settings(max_examples=16, database=None, derandomize=True)
@given(st.integers(2, 7), st.integers(1, 20), st.integers(1, 3), st.booleans())
def test_recurrences_of_random_shapes(steps, width, back, reduces):
    back = min(back, steps)
    x, s = te.placeholder((steps, width), name="x"), te.placeholder((steps, width), name="s")
    k = te.reduce_axis(width, "k")
    first = te.compute((back, width), lambda t, i: x[t, i], "first")
    if reduces:
        rows = te.compute((steps,), lambda t: te.max(s[t - back, k], axis=k), "rows")
        update = te.compute((steps, width), lambda t, i: rows[t] - x[t, i], "update")
    else:
        update = te.compute((steps, width), lambda t, i: s[t - back, width - 1 - i] - x[t, i], "update")
    v = np.round(values(steps, width) * 8)
    wanted = list(v[:back])
    for t in range(back, steps):
        wanted.append((wanted[t - back].max() if reduces else wanted[t - back][::-1]) - v[t])
    func = te.func("random", [x], [te.scan(first, update, s)])
    np.testing.assert_array_equal(interpreter.run(func, [v])[0], np.stack(wanted))
    (loops,) = mlc.lower(func).body.block.ops
    np.testing.assert_array_equal(loop_interpreter.run(loops, [v])[0], np.stack(wanted))
    if width % 4 == 0:
        np.testing.assert_array_equal(mlc.build(func, threads=1, cache=False)(v), np.stack(wanted))


@pytest.mark.parametrize("name", KERNELS)
def test_random_schedules_keep_the_values(name, monkeypatch):
    monkeypatch.setitem(OPERATORS, name, KERNELS[name]())
    legal = set()
    for seed in range(4):
        run = RandomSchedule(name, random.Random(seed))
        for _ in range(8):
            run.step()
        check_values(name, run.schedule.lowered(), seed)
        legal |= {action for action, fits in run.drawn if fits}
    assert len(legal) >= 4
    with collected_warnings():
        found = mlc.build(run.schedule, threads=1, cache=False)(*inputs(name, 1))
    for got, want in zip(found if isinstance(found, tuple) else [found], expected(name, 1), strict=True):
        np.testing.assert_array_equal(got, want)


def test_the_steps_are_not_parallel():
    x, sums = cumulative_sum(16, 32)
    s = mlc.Schedule(te.func("sums", [x], [sums]))
    step, i = s.loops(s["following"])
    for directive in (lambda: s.parallel(step), lambda: s.reorder(i, step), lambda: s.vectorize(step)):
        with pytest.raises(UserError, match=r"'following'|\"following\"|loop %step"):
            directive()
    outer, inner = s.split(i, [None, 8])
    s.parallel(outer)
    s.vectorize(inner)
    a = values(16, 32)
    np.testing.assert_allclose(mlc.build(s)(a), np.cumsum(a, 0), rtol=1e-5, atol=1e-5)


X, S = te.placeholder((8, 4), name="x"), te.placeholder((8, 4), name="s")
INIT = te.compute((1, 4), lambda t, i: X[t, i], "init")
UPDATE = te.compute((8, 4), lambda t, i: S[t - 1, i] + X[t, i], "update")
STATE, J = te.placeholder((8, 4), name="other"), te.reduce_axis(4, "j")
OTHER = te.compute((8, 4), lambda t, i: STATE[t - 1, i] + X[t, i], "other_update")
INIT_3 = te.compute((3, 4), lambda t, i: X[t, i], "init_3")
REFUSED = [
    (lambda: te.scan(X, UPDATE, S), None),
    (lambda: te.scan([INIT], [UPDATE], [S, S]), "expected an init and an update of each state, but got 1 and 1 of 2"),
    (lambda: te.scan(INIT, UPDATE, INIT), "expected the state of te.scan to be a placeholder"),
    (lambda: te.scan(INIT, INIT, S), "expected the update of state 's' of shape 8x4 to have its shape, but got 1x4"),
    (
        lambda: te.scan(te.compute((1, 3), lambda t, i: X[t, i]), UPDATE, S),
        "expected the init of state 's' of shape 8x4 to have shape 1 or morex4, but got 1x3",
    ),
    (
        lambda: te.scan(te.compute((1, 4), lambda t, i: te.cast(X[t, i], "int32")), UPDATE, S),
        "expected the init of state 's' of shape 8x4 to be of f32, but got i32",
    ),
    (lambda: te.scan(INIT, UPDATE, "s"), "expected state of te.scan to be a tensor, but got 's'"),
    (
        lambda: te.scan(INIT, te.compute((8, 4), lambda t, i: te.if_then_else(t >= 1, S[t - 2, i], 0.0), "far"), S),
        "expected 'far' to read a state 1 to 1 steps back, or at a step that a condition on indices proves to be",
    ),
    (
        lambda: te.scan(INIT, te.compute((8, 4), lambda t, i: S[t, i], "now"), S),
        "expected 'now' to read a state 1 to 1 steps back",
    ),
    (lambda: te.func("f", [X, S], [UPDATE]), "stage 'update': .* but it spans -1..6; .* give the tensor to te.scan"),
    (
        lambda: te.compute((8, 4), lambda t, i: S[t + 1, i], "next"),
        r"but it spans 1..8; .*; a state of te.scan is read at earlier steps of its first axis, s\[t - 1, ...\]",
    ),
    (
        lambda: te.scan([INIT, te.compute((2, 4), lambda t, i: X[t, i])], [UPDATE, UPDATE], [S, STATE]),
        "expected inits of one number of steps, but got 1 of 's', 2 of 'other'",
    ),
    (
        lambda: te.scan(INIT, te.extern((8, 4), [S], te.call("f"), name="e"), S),
        "expected the stages of te.scan 'scan' that depend on a state to be te.compute, but 'e' is a te.extern",
    ),
    (
        lambda: te.scan(INIT, te.scan(te.compute((1, 4), lambda t, i: S[t, i]), OTHER, STATE, name="inner"), S),
        "expected the stages of te.scan 'scan' that depend on a state to be te.compute, but 'inner' is a te.scan",
    ),
    (
        lambda: te.scan([INIT_3], [te.compute((8, 4), lambda t, i: te.sum(S[t - 1 - J, i], axis=J), "sums")], [S]),
        "expected 'sums' to read a state 1 to 3 steps back, .* but got index %t - %j - 1",
    ),
    (lambda: te.func("f", [X], [UPDATE]), "expected 's' among the inputs of te.func, but it is not; the state of a"),
]


@pytest.mark.parametrize(("use", "message"), REFUSED[1:], ids=range(1, len(REFUSED)))
def test_refused_scans(use, message):
    with pytest.raises(UserError, match=message):
        use()


def test_a_consumer_of_the_first_steps_does_not_move_into_the_loop():
    x, s = te.placeholder((7, 12), name="x"), te.placeholder((7, 12), name="s")
    first = te.compute((1, 12), lambda t, i: x[t, i], "first")
    states = te.scan(first, te.compute((7, 12), lambda t, i: s[t - 1, i] - x[t, i], "step"), s)
    schedule = mlc.Schedule(te.func("f", [x], [te.compute((7, 12), lambda t, i: states[t, i] * 2.0, "out")]))
    steps, _ = schedule.loops(schedule["step"])
    with pytest.raises(UserError, match='block "out" reads of %s what block "first" writes outside of loop %step'):
        schedule.reverse_compute_at(schedule["out"], steps)


def test_stages_of_a_step_are_read_at_their_own_step():
    part = te.compute((8, 4), lambda t, i: S[t - 1, i] * 2.0, "part")
    late = te.compute((8, 4), lambda t, i: part[7 - t, i] + X[t, i], "late")
    with pytest.raises(UserError, match="expected 'late' to read 'part' at its own step, but got index"):
        te.scan(INIT, late, S)
