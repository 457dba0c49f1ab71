"""mlc.Schedule: each directive is applied to the loops at once, or refused, and the printed schedule replays."""

import subprocess
import sys

import numpy as np
import pytest
from sched_kernels import ROWS

import mlc
from mlc import te
from mlc.dialects import sched
from mlc.frontends.te.schedule_methods import ALIASES, directive_ops
from mlc.passes.loop.directives import DIRECTIVES, FINDING
from mlc.support.errors import UserError


def matmul(m: int = 12, n: int = 40, k: int = 20):
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis(k, "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    d = te.compute((m, n), lambda i, j: te.maximum(c[i, j], 0.0), name="D")
    return te.func("matmul", [a, b], [d])


def operands(m: int = 12, n: int = 40, k: int = 20):
    rng = np.random.default_rng(0)
    return [rng.integers(-4, 5, s).astype(np.float32) for s in ((m, k), (k, n))]


def scheduled() -> mlc.Schedule:
    s = mlc.Schedule(matmul())
    i, j, k = s.loops(s["C"])
    jo, ji = s.split(j, [None, 16])
    s.reorder(i, jo, k, ji)
    s.reverse_compute_at(s["D"], jo)
    s.decompose_reduction(s["C"], k)
    s.parallel(i)
    s.vectorize(ji)
    return s


def test_a_schedule_is_built():
    a, b = operands()
    op = mlc.build(scheduled(), threads=1)
    np.testing.assert_array_equal(op(a, b), np.maximum(a @ b, 0))
    assert "sched.split %j" in op.text("te")


def test_every_directive_is_a_method_with_the_signature_of_its_op():
    names = {op.name.removeprefix("sched.") for op in DIRECTIVES if op not in FINDING}
    assert names <= set(directive_ops())
    assert {n for n in directive_ops() if not callable(getattr(mlc.Schedule, n))} == set()
    assert ALIASES == {"annotate": "pragma"}
    assert mlc.Schedule.cache_read.__doc__ == sched.CacheReadOp.__doc__
    assert (
        str(mlc.Schedule.cache_read.__dict__["__signature__"])
        == "(self, /, block, buffer, scope, element=None, *, names=())"
    )


def test_a_copy_has_the_elements_to_which_the_block_casts():
    a, b, r = te.placeholder((12, 20), name="A"), te.placeholder((20, 40), "int8", name="B"), te.reduce_axis(20, "k")
    c = te.compute((12, 40), lambda i, j: te.sum(a[i, r] * te.cast(b[r, j], "float32"), axis=r), name="C")
    s = mlc.Schedule(te.func("matmul", [a, b], [c]))
    i, j, k = s.loops(s["C"])
    with pytest.raises(UserError, match="expected a dtype as element, but got 'real'"):
        s.cache_read(s["C"], 1, "local", "real")
    with pytest.raises(UserError, match="to cast each element of %A to f64"):
        s.cache_read(s["C"], 0, "local", element=np.float64)
    copy = s.cache_read(s["C"], 1, "local", element="float32")
    s.reorder(j, i, k)
    s.compute_at(copy, j)
    op = mlc.build(s, threads=1)
    assert 'sched.cache_read %C[1] "local" as f32' in op.text("te")
    left, right = operands()[0], np.random.default_rng(1).integers(-99, 99, (20, 40)).astype(np.int8)
    np.testing.assert_array_equal(op(left, right), left @ right.astype(np.float32))


def test_a_new_op_becomes_a_method(monkeypatch):
    from xdsl.irdl import IRDLOperation as Base
    from xdsl.irdl import irdl_op_definition, operand_def, prop_def

    from mlc.frontends.te import schedule

    @irdl_op_definition
    class NoteOp(Base):
        """Leave a note."""

        name = "sched.leave_note"
        loop = operand_def(sched.LOOP)
        times = prop_def(sched.I64)

    seen = []
    monkeypatch.setitem(DIRECTIVES, NoteOp, lambda kernel, op: seen.append(op.times.value.data))
    schedule.add_methods()
    try:
        s = mlc.Schedule(matmul())
        s.leave_note(s.loops(s["C"])[0], 3)
        assert seen == [3]
        with pytest.raises(UserError, match=r"expected a whole number as times, but got 'x'"):
            s.leave_note(s.loops(s["C"])[0], "x")
    finally:
        del mlc.Schedule.leave_note


def test_an_illegal_directive_is_refused_at_the_line_and_changes_nothing():
    s = scheduled()
    before = str(s), s.text("loop")
    k = s.loops(s["C"])[2]
    with pytest.raises(UserError) as raised:
        s.reorder(k, s.loops(s["C"])[0])
    assert raised.value.place.startswith(f"{__file__}:")
    assert "'sched.reorder' op expected loop %k to be all that loop %j_o holds" in str(raised.value)
    with pytest.raises(UserError, match=r"'sched.compute_at' op .*block .D. writes the output %"):
        s.compute_at(s["D"], k)
    assert (str(s), s.text("loop")) == before


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s, i, j, k: s.bind(i, "blockIdx.x"), "expected an axis of target 'native', but got 'blockIdx.x'"),
        (lambda s, i, j, k: s.split(j), r"sched.split: expected split\(loop, factors\), but got \(%j\): missing"),
        (lambda s, i, j, k: s.split("j", [2]), r"expected split\(loop, factors\), but got \('j', \[2\]\)"),
        (lambda s, i, j, k: s.split(j, [0, 2]), "sched.split: expected a positive factor, None or a knob, but got 0"),
        (lambda s, i, j, k: s.loops("C"), "expected a handle of this schedule, .* but got 'C'"),
        (lambda s, i, j, k: s.child(s["C"], 0), 'expected a loop, but got block "C"'),
        (lambda s, i, j, k: s.save("/none/s.mlir"), "/none/s.mlir: No such file or directory"),
        (lambda s, i, j, k: s.rfactor(k, "x"), "sched.rfactor: expected a whole number as axis, but got 'x'"),
        (lambda s, i, j, k: s.compute_at(k, k), "sched.compute_at: expected a block as block, but got loop"),
        (lambda s, i, j, k: s.reorder(s["C"]), "sched.reorder: expected a loop as loops, but got block"),
        (lambda s, i, j, k: s["E"], 'expected the name of a block of @matmul .*, but got "E"'),
        (lambda s, i, j, k: s.loops(k), "expected a block, but got <loop %k: 20 iterations, serial>"),
        (lambda s, i, j, k: s.child(i, 3), "expected a position below 1 in loop %i, but got 3"),
        (lambda s, i, j, k: s.parallel(mlc.Schedule(matmul()).loops(s["C"])[0]), "expected a handle of this schedule"),
        (lambda s, i, j, k: s.split(j, [None, 4], names=["a"]), "expected 2 names, one a result, but got 1"),
        (lambda s, i, j, k: s.split(j, [None, 4], names=["a", "i"]), "the schedule has a handle %i"),
        (lambda s, i, j, k: s.split(j, [None, 4], names=["a", "b_1"]), "expected names of letters"),
        (lambda s, i, j, k: s.text("asm"), "expected a level among sched, loop, te, module, but got 'asm'"),
        (lambda s, i, j, k: s.undo(), "expected a directive to undo, but the schedule has none"),
        (lambda s, i, j, k: s.transform_layout(s["C"], lambda i, j: "x"), "expected a list of expressions"),
    ],
)
def test_wrong_calls(call, message):
    s = mlc.Schedule(matmul())
    i, j, k = s.loops(s["C"])
    before = s.text("loop")
    with pytest.raises(UserError, match=message):
        call(s, i, j, k)
    assert s.text("loop") == before


def test_consumed_handles_are_refused_by_name():
    s = mlc.Schedule(matmul())
    _, j, _ = s.loops(s["C"])
    s.split(j, [None, 8])
    assert repr(j) == "<%j, which is consumed or undone>"
    with pytest.raises(UserError, match=r"expected a live handle, but %j was consumed by sched.split"):
        s.unroll(j)


def test_loops_that_a_directive_moves_blocks_into_are_checked_at_once():
    s = mlc.Schedule(matmul())
    s.parallel(s.loops(s["C"])[0])
    before = s.text("loop")
    with pytest.raises(UserError, match=r"is local to a thread of loop %i.*; or mark that loop parallel after"):
        s.cache_write(s["C"], "local")
    assert s.text("loop") == before


def test_undo_goes_back_one_directive():
    s = mlc.Schedule(matmul())
    i, j, k = s.loops(s["C"])
    states = [(str(s), s.text("loop"))]
    jo, ji = s.split(j, [None, 16])
    states.append((str(s), s.text("loop")))
    s.reorder(i, jo, k, ji)
    s.undo()
    assert (str(s), s.text("loop")) == states[1]
    s.undo()
    assert (str(s), s.text("loop")) == states[0]
    assert repr(ji) == "<%j_i, which is consumed or undone>"
    with pytest.raises(UserError, match=r"expected a live handle, but %j_i was undone"):
        s.vectorize(ji)
    s.split(j, [None, 8])
    assert [f.extent for f in s.loops(s["C"])] == [12, 5, 8, 20]


def test_handles_say_what_they_stand_for():
    s = scheduled()
    assert [(f.name, f.extent, f.kind) for f in s.loops(s["C"])] == [
        *(("i", 12, "parallel"), ("j_o", 3, "serial"), ("k", 20, "serial"), ("j_i", 16, "vectorized"))
    ]
    assert s.blocks == ["C", "D", "C_init"]
    assert repr(s["C"]) == '<block "C">'
    assert repr(s.knob("t", [2, 4], 4)) == "<knob of value 4>"


def test_what_is_saved_is_loaded_and_replayed_by_mlc_opt(tmp_path):
    s = mlc.Schedule(matmul())
    t = s.knob("tile", [8, 16], 16)
    i, j, _ = s.loops(s["C"])
    io, *_ = s.tile([i, j], [4, t], names=("io", "jo", "ii", "ji"))
    s.loops(s["D"])  # loops of the same names
    s.split(s.loops(s["D"])[1], [None, 4, 2])
    s.transform_layout(s["C"], lambda i, j: [j // 8, i, j % 8])
    s.annotate(io, "my.note", "here")
    s.save(tmp_path / "s.mlir")
    loaded = mlc.Schedule.load(tmp_path / "s.mlir")
    assert (str(loaded), loaded.text("loop")) == (str(s), s.text("loop"))
    command = [sys.executable, "-m", "mlc.tools.mlc_opt", "s.mlir", "-p", "convert-te-to-loop,loop-apply-schedule"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    body = "\n".join(line.removeprefix("  ") for line in done.stdout.splitlines()[1:-1])
    assert body == s.text("loop").strip() or done.stdout.strip() == s.text("loop").strip()
    a, b = operands()
    np.testing.assert_array_equal(mlc.build((tmp_path / "s.mlir").read_text(), threads=1)(a, b), np.maximum(a @ b, 0))


def test_a_file_that_does_not_apply_is_named_with_its_line(tmp_path):
    scheduled().save(tmp_path / "s.mlir")
    text = (tmp_path / "s.mlir").read_text()
    (tmp_path / "s.mlir").write_text(text.replace("sched.parallel %i", "sched.parallel %k"))
    line = next(n for n, x in enumerate(text.splitlines(), 1) if "sched.parallel" in x)
    with pytest.raises(UserError, match=rf"s.mlir:{line}:\d+: .*loop %k reduces"):
        mlc.Schedule.load(tmp_path / "s.mlir")
    (tmp_path / "s.mlir").write_text(ROWS + ROWS.replace("@rows", "@more"))
    with pytest.raises(UserError, match=r"expected one te.func or loop.func, and at most one sched.schedule"):
        mlc.Schedule.load(tmp_path / "s.mlir")
    with pytest.raises(UserError, match="No such file"):
        mlc.Schedule.load(tmp_path / "none.mlir")
    with pytest.raises(UserError, match=r"expected a te.func, loop.func, IR text or mlc.te tensors, but got 3"):
        mlc.Schedule(3)


def test_bare_tensors():
    """As mlc.build takes them; a tensor names its block."""
    a, b = te.placeholder((12, 20), name="A"), te.placeholder((20, 40), name="B")
    r = te.reduce_axis(20, "k")
    c = te.compute((12, 40), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    d = te.compute((12, 40), lambda i, j: te.maximum(c[i, j], 0.0), name="D")
    x, y = operands()
    for given, arrays in ((d, (x, y)), ([d], (x, y)), ((b, a, d), (y, x))):
        s = mlc.Schedule(given)
        s.parallel(s.loops(s[c])[0])
        s.reverse_compute_at(s[d], s.loops(s[c])[0])
        assert np.array_equal(mlc.build(s)(*arrays), np.maximum(x @ y, 0))
        assert str(mlc.lower(given)) == str(mlc.lower(s.func))
    with pytest.raises(UserError, match="expected at least one computed tensor"):
        mlc.Schedule([a, b])
    again = te.compute((12, 40), lambda i, j: c[i, j] + 1.0, name="C")
    with pytest.raises(UserError, match=r"test_schedule.py:\d+:1: .*several are called 'C'"):
        mlc.Schedule(again)[c]
