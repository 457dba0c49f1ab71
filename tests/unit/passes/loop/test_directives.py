"""The parts of scheduling by themselves: spans of accesses, legality checks, the builder, the speed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_schedules import OPEN, SCAN
from sched_kernels import CONV, DENSE, ROWS, Session, check_values, fresh
from xdsl.parser import Parser

from mlc.dialects import loop, sched
from mlc.dialects.index import Index, const, dim, tile
from mlc.driver.pipeline.registry import make_context
from mlc.passes.loop.apply_schedule import ApplySchedulePass
from mlc.passes.loop.directives import DIRECTIVES, legality
from mlc.passes.loop.directives.compute_at import needed_box, solve_axes
from mlc.passes.loop.directives.kernel import Kernel, comes_before
from mlc.passes.loop.directives.storage import new_shape
from mlc.passes.loop.index_space.dependence import recoverable
from mlc.passes.loop.index_space.domain import loops_around
from mlc.passes.loop.index_space.regions import Interval, interval_of, whole
from mlc.schedules.builder import ScheduleBuilder
from mlc.support.errors import UserError


def kernel_of(text: str) -> Kernel:
    func = fresh(text)
    return Kernel(func, func)


# --- spans -------------------------------------------------------------------------------------------------------

TERMS = st.sampled_from([dim(0), dim(1), dim(2), dim(0) * 3, dim(1) * -2, dim(2) * 4, const(5), const(-3)])


def expressions() -> st.SearchStrategy[Index]:
    flat = st.lists(TERMS, min_size=1, max_size=3).map(lambda ts: sum(ts[1:], ts[0]))
    cut = st.tuples(flat, st.sampled_from([2, 3, 4]), st.booleans()).map(
        lambda t: t[0].mod(t[1]) if t[2] else t[0].floordiv(t[1])
    )
    return st.one_of(flat, cut, st.tuples(flat, cut).map(lambda t: t[0] + t[1]))


@settings(max_examples=200)
@given(expressions(), st.sets(st.sampled_from([0, 1, 2])))
def test_span_covers_what_is_touched(expr, fixed):
    ranges = {0: (0, 3), 1: (0, 4), 2: (0, 2)}
    span = interval_of(expr, fixed, ranges)
    assert span.base.dims() <= fixed
    points = np.ndindex(4, 5, 3)
    touched: dict[tuple, set[int]] = {}
    for p in points:
        touched.setdefault(tuple(p[d] for d in sorted(fixed)), set()).add(expr.evaluate(p))
    for p in np.ndindex(4, 5, 3):
        got = touched[tuple(p[d] for d in sorted(fixed))]
        base = span.base.evaluate(p)
        box = set(range(base, base + span.extent))
        assert got <= box
        if span.exact:
            assert got == box


def test_span_of_a_strided_window_is_exact():
    # 4 outputs of stride 2 and a window of 3 need 9 inputs.
    ranges = {0: (0, 6), 1: (0, 3), 2: (0, 2)}
    assert interval_of(dim(0) * 8 + dim(1) * 2 + dim(2), {0}, ranges) == Interval(dim(0) * 8, 9, True)
    # A stride beyond the window leaves holes.
    assert not interval_of(dim(0) * 8 + dim(1) * 4 + dim(2), {0}, ranges).exact


def test_axes_are_solved_from_dimensions():
    spans = [Interval(dim(9), 2), Interval(dim(8) * 16, 16)]
    assert solve_axes([dim(1) + 3, dim(0)], spans, [64, 64]) == {
        1: Interval(dim(9) - 3, 2),
        0: Interval(dim(8) * 16, 16),
    }
    # A blocked dimension: 2 blocks of 16, or a part of one block.
    blocked = [dim(0).floordiv(16), dim(0).mod(16)]
    assert solve_axes(blocked, [Interval(dim(9), 2), whole(16)], [64]) == {0: Interval(dim(9) * 16, 32)}
    assert solve_axes(blocked, [Interval(dim(9), 1), Interval(dim(8), 4)], [64]) == {
        0: Interval(dim(9) * 16 + dim(8), 4)
    }
    # What cannot be solved runs whole.
    assert solve_axes([dim(0) + dim(1)], [Interval(dim(9), 2)], [64, 64]) == {}


def test_halo_of_a_convolution():
    kernel = kernel_of(CONV)
    pad, conv = kernel.find("pad"), kernel.find("conv")
    h = loops_around(conv)[1]
    box = needed_box(kernel, pad, h)
    assert box == {0: whole(3), 1: Interval(kernel.space.dim(h.iv) * 2, 3, True)}
    assert needed_box(kernel, pad, loops_around(conv)[0]) == {0: whole(3), 1: whole(19)}


def test_an_index_is_recovered_from_its_parts():
    f, ranges = dim(0), {0: (0, 47)}
    assert recoverable(f, {f.floordiv(6), f.mod(6)}, ranges)
    assert recoverable(f, {f.floordiv(6), f.mod(6).floordiv(2), f.mod(6).mod(2)}, ranges)
    assert not recoverable(f, {f.floordiv(6)}, ranges)


def test_layout_maps():
    ranges = {-1: (0, 31), -2: (0, 7)}
    d0, d1 = tile(0), tile(1)
    assert new_shape([d0.floordiv(16), d1, d0.mod(16)], ranges) == ([2, 8, 16], None)
    assert new_shape([d0 * 8 + d1], ranges) == ([256], None)
    assert new_shape([d0 * 8 + d1 * 8], ranges)[1] is not None
    assert new_shape([d0 * 7 + d1], ranges)[1] is not None


# --- legality ----------------------------------------------------------------------------------------------------


def test_parallel_loops():
    kernel = kernel_of(DENSE)
    i, j, k = loops_around(kernel.find("dense"))
    assert legality.parallelizable(kernel, i) is None
    assert legality.parallelizable(kernel, j) is None
    assert "reduces" in (legality.parallelizable(kernel, k) or "")


def test_rows_of_a_fused_loop_are_independent():
    session = Session(fresh(ROWS))
    d = session.block("diff")
    i, j = session.loops(d, 2)
    f = session.fuse(i, j)
    assert legality.parallelizable(session.kernel_, session.kernel_.loop(f)) is None


def test_a_shared_halo_may_be_computed_twice_but_not_accumulated_twice():
    session = Session(fresh(CONV))
    pad, conv = session.block("pad"), session.block("conv")
    _, h, _, _ = session.loops(conv, 4)
    session.compute_at(pad, h)
    assert legality.parallelizable(session.kernel_, session.kernel_.loop(h)) is None


def test_reduction_and_spatial_loops():
    kernel = kernel_of(DENSE)
    dense, relu = kernel.find("dense"), kernel.find("relu")
    i, _, k = loops_around(dense)
    assert legality.reduces(kernel, k, dense)
    assert not legality.spreads(kernel, k, dense)
    assert legality.spreads(kernel, i, dense)
    assert legality.idempotent(dense)
    assert comes_before(dense, relu)
    assert not comes_before(relu, dense)


def test_perfect_nests():
    session = Session(fresh(DENSE))
    c, r = session.block("dense"), session.block("relu")
    i, j, _ = session.loops(c, 3)
    assert legality.perfectly_nested([session.kernel_.loop(i), session.kernel_.loop(j)]) is None
    session.reverse_compute_at(r, i)
    assert legality.perfectly_nested([session.kernel_.loop(i), session.kernel_.loop(j)]) is not None


def test_imperfect_nests_may_be_reordered_where_iterations_keep_apart():
    session = Session(fresh(DENSE))
    c = session.block("dense")
    i, j, k = session.loops(c, 3)
    session.decompose_reduction(c, k)
    session.reorder(j, i)
    check_values(session.func, DENSE)
    assert loops_around(session.kernel_.find("dense_init")) == [session.kernel_.loop(j), session.kernel_.loop(i)]


# --- directives on values ----------------------------------------------------------------------------------------


def test_tensorize_keeps_values():
    session = Session(fresh(DENSE))
    c = session.block("dense")
    _, _, k = session.loops(c, 3)
    ko, ki = session.split(k, [None, 4])
    session.decompose_reduction(c, ko)
    session.tensorize(ki, "dot_accumulate")
    check_values(session.func, DENSE)


def test_storage_align_pads_and_keeps_values():
    session = Session(fresh(DENSE))
    session.storage_align(session.block("dense"), 0, 32, 8)
    alloc = next(op for op in session.func.body.block.ops if isinstance(op, loop.AllocOp))
    assert list(alloc.result.type.get_shape()) == [4, 40]
    check_values(session.func, DENSE)


def test_conv_schedule_keeps_values():
    session = Session(fresh(CONV))
    pad, conv, out = session.block("pad"), session.block("conv"), session.block("out")
    o, h, i, k = session.loops(conv, 4)
    ho, hi = session.split(h, [None, 4])
    session.reorder(ho, o, i, k, hi)
    session.reverse_compute_at(out, o)
    session.compute_at(pad, ho)
    session.set_scope(pad, "local")
    session.decompose_reduction(conv, i)
    session.vectorize(hi)
    session.parallel(ho)
    check_values(session.func, CONV)


# --- the builder, the pass ---------------------------------------------------------------------------------------


def build() -> sched.ScheduleOp:
    s = ScheduleBuilder("dense")
    c, r = s.block("dense"), s.block("relu")
    i, j, k = s.loops(c, 3, names=["i", "j", "k"])
    t = s.knob("tile_j", [8, 10], 10)
    jo, ji = s.split(j, [None, t], names=["jo", "ji"])
    s.reorder(i, jo, k, ji)
    s.reverse_compute_at(r, jo)
    s.decompose_reduction(c, k)
    s.vectorize(ji)
    s.pragma(jo, "my.note", "here")
    s.parallel(i)
    return s.finish()


def test_builder_writes_a_schedule_that_parses_and_applies():
    text = str(build())
    assert "%jo, %ji = sched.split %j [?, %tile_j]" in text
    module = Parser(make_context(), DENSE + text).parse_module()
    module.verify()
    ApplySchedulePass(verify=True).apply(make_context(), module)
    (func,) = module.body.block.ops
    assert isinstance(func, loop.FuncOp)
    check_values(func, DENSE)


@pytest.mark.parametrize(("tile_j", "outer"), [(10, 3), (8, 4)])
def test_knobs_take_the_values_of_a_record(tile_j, outer):
    text = str(build()).replace("default 10", f"default 10 value {tile_j}")
    module = Parser(make_context(), DENSE + text).parse_module()
    ApplySchedulePass().apply(make_context(), module)
    (func,) = module.body.block.ops
    assert isinstance(func, loop.FuncOp)
    extents = [op.extent for op in func.walk() if isinstance(op, loop.ForOp) and op.iv.name_hint == "jo"]
    assert extents == [outer]
    check_values(func, DENSE)


def test_every_directive_has_a_rewrite_and_a_documented_counterpart():
    ops = set(sched.Sched.operations) - {sched.ScheduleOp, sched.IntrinsicOp}
    assert ops == set(DIRECTIVES)
    for op in ops - {sched.KnobOp}:
        assert "TVM" in (op.__doc__ or ""), op.name


def test_a_refusal_leaves_the_kernel_as_it_was():
    session = Session(fresh(DENSE))
    c, r = session.block("dense"), session.block("relu")
    _, _, k = session.loops(c, 3)
    before = str(session.func)
    with pytest.raises(Exception, match="still reduces"):
        session.reverse_compute_at(r, k)
    assert str(session.func) == before


BLOCKED = """
loop.func @conv(%x: memref<1x2x10x10x4xf32>, %w: memref<2x2x3x3x4x4xf32>, %b: memref<2x4xf32>,
    %y: memref<1x2x8x8x4xf32>) attributes {outputs = 1 : i64} {
  %c = loop.alloc "shared" : memref<1x2x8x8x4xf32>
  loop.for %n = 0 to 1 { loop.for %oo = 0 to 2 { loop.for %h = 0 to 8 { loop.for %v = 0 to 8 { loop.for %oi = 0 to 4 {
  loop.for %io = 0 to 2 { loop.for %kh = 0 to 3 { loop.for %kw = 0 to 3 { loop.for %ii = 0 to 4 {
    loop.block "conv" (%an : 1 = %n, %ao : 2 = %oo, %ah : 8 = %h, %aw : 8 = %v, %ai : 4 = %oi)
        reduce (%ro : 2 = %io, %rh : 3 = %kh, %rw : 3 = %kw, %ri : 4 = %ii) init {
    ^bb0(%a0 : index, %a1 : index, %a2 : index, %a3 : index, %a4 : index,
         %a5 : index, %a6 : index, %a7 : index, %a8 : index):
      %z = arith.constant 0.0 : f32
      loop.store %z, %c[%a0, %a1, %a2, %a3, %a4] : f32
    } {
      %p = loop.load %x[%an, %ro, %ah + %rh, %aw + %rw, %ri] : f32
      %q = loop.load %w[%ao, %ro, %rh, %rw, %ri, %ai] : f32
      %d = loop.load %c[%an, %ao, %ah, %aw, %ai] : f32
      %e = loop.fma %p, %q, %d : f32, f32, f32
      loop.store %e, %c[%an, %ao, %ah, %aw, %ai] : f32
    }
  } } } }
  } } } } }
  loop.for %n = 0 to 1 { loop.for %oo = 0 to 2 { loop.for %h = 0 to 8 { loop.for %v = 0 to 8 { loop.for %oi = 0 to 4 {
    loop.block "out" (%an : 1 = %n, %ao : 2 = %oo, %ah : 8 = %h, %aw : 8 = %v, %ai : 4 = %oi) {
      %p = loop.load %c[%an, %ao, %ah, %aw, %ai] : f32
      %q = loop.load %b[%ao, %ai] : f32
      %s = arith.addf %p, %q : f32
      loop.store %s, %y[%an, %ao, %ah, %aw, %ai] : f32
    }
  } } } } }
}
"""


def blocked(s: ScheduleBuilder) -> None:
    """Twenty-five directives, as for a blocked convolution on a real machine; the input is packed into a copy."""
    c, o = s.block("conv"), s.block("out")
    r = s.cache_read(c, 0, "shared")
    n, oo, h, v, oi, io, kh, kw, ii = s.loops(c, 9)
    ho, hi = s.split(h, [None, 2])
    vo, vi = s.split(v, [None, 3])
    s.reorder(n, ho, oo, hi, vo, io, kh, kw, ii, vi, oi)
    s.reverse_compute_at(o, vo)
    _, _, _, ow, oc = s.loops(o, 5, under=vo)
    s.vectorize(ow, oc)
    s.compute_at(r, ho)
    s.set_scope(r, "local")
    *_, rc = s.loops(r, 5, under=ho)
    s.vectorize(rc)
    _, update = s.decompose_reduction(c, io)
    s.vectorize(vi, oi)
    s.set_scope(update, "local")
    s.unroll(kh)
    s.unroll(kw)
    f = s.fuse(n, ho)
    s.pragma(f, "my.grain", 1)
    s.parallel(f)


def test_a_blocked_convolution():
    session = Session(fresh(BLOCKED))
    blocked(session)
    check_values(session.func, BLOCKED)
    local = [op for op in session.func.walk() if isinstance(op, loop.AllocOp) and op.scope.data == "local"]
    assert len(local) == 2


def test_scalar_reductions_by_rfactor():
    session = Session(fresh(ROWS))
    s = session.block("sum")
    _, k = session.loops(s, 2)
    _, ki = session.split(k, [None, 3])
    session.rfactor(ki, 1)
    session.parallel(ki)
    check_values(session.func, ROWS)
    assert session.kernel_.find("sum_rf").num_spatial == 2


def test_new_ops_come_from_where_the_old_ones_do():
    from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr

    place = FileLineColLoc(StringAttr("model.onnx"), IntAttr(7), IntAttr(1))
    func = fresh(BLOCKED)
    for op in func.walk():
        op.location = place
    blocked(Session(func))
    lost = [op.name for op in func.walk() if op.location != place and op.name not in ("loop.alloc", "loop.yield")]
    assert lost == []


TOTAL = """
loop.func @total(%x: memref<12xf32>, %y: memref<f32>, %z: memref<12xf32>) attributes {outputs = 2 : i64} {
  %s = loop.alloc "shared" : memref<f32>
  loop.for %k = 0 to 12 {
    loop.block "sum" () reduce (%r : 12 = %k) init {
    ^bb0(%r : index):
      %0 = arith.constant 0.0 : f32
      loop.store %0, %s[] : f32
    } {
      %0 = loop.load %x[%r] : f32
      %1 = loop.load %s[] : f32
      %2 = arith.addf %0, %1 : f32
      loop.store %2, %s[] : f32
    }
  }
  loop.block "double" () {
    %0 = loop.load %s[] : f32
    %1 = arith.addf %0, %0 : f32
    loop.store %1, %y[] : f32
  }
  loop.for %i = 0 to 12 {
    loop.block "less" (%v : 12 = %i) {
      %0 = loop.load %x[%v] : f32
      %1 = loop.load %y[] : f32
      %2 = arith.subf %0, %1 : f32
      loop.store %2, %z[%v] : f32
    }
  }
}
"""


def test_blocks_without_spatial_axes():
    session = Session(fresh(TOTAL))
    s, d = session.block("sum"), session.block("double")
    (k,) = session.loops(s, 1)
    (i,) = session.loops(session.block("less"), 1)
    session.cache_read(d, 0, "shared")
    _, ki = session.split(k, [None, 5])
    session.rfactor(ki, 0)
    w = session.cache_write(d, "shared")
    check_values(session.func, TOTAL)
    rest = session.loops(s, 1)
    session.decompose_reduction(s, rest[0])
    check_values(session.func, TOTAL)
    with pytest.raises(UserError, match="writes the output %y"):
        session.compute_at(w, i)
    session.compute_inline(d)
    check_values(session.func, TOTAL)


def test_a_consumer_of_a_scan_moves_only_where_it_still_runs_at_all_points():
    # "next" writes the rows from the second on: a consumer of all rows that moved to it would miss the first.
    session = Session(fresh(SCAN))
    t, _ = session.loops(session.block("next"), 2)
    with pytest.raises(UserError, match='block "y" reads of %s what block "first" writes outside of loop %t'):
        session.reverse_compute_at(session.block("y"), t)
    check_values(session.func, SCAN)


def test_layouts_and_paddings_of_buffers_of_symbolic_size():
    def unknown(directive):
        session = Session(fresh(OPEN))
        directive(session, session.block("e"))
        return session

    with pytest.raises(UserError, match="expected indices from 0, but"):
        unknown(lambda s, b: s.transform_layout(b, [tile(0) * -1 + 5, tile(1)]))
    flat = unknown(lambda s, b: s.transform_layout(b, [tile(0) * 12 + tile(1)]))
    assert '"shared" (%n * 12) : memref<?xf32>' in str(flat.func)
    blocked = unknown(lambda s, b: s.transform_layout(b, [tile(0).floordiv(4), tile(1), tile(0).mod(4)]))
    assert "floordiv 4" in str(next(op for op in blocked.func.walk() if isinstance(op, loop.AllocOp)))
    laid_out = unknown(lambda s, b: s.transform_layout(b, [tile(1).floordiv(4), tile(0), tile(1).mod(4)]))
    assert "memref<3x?x4xf32>" in str(laid_out.func)
    assert "memref<?x17xf32>" in str(unknown(lambda s, b: s.storage_align(b, 0, 16, 1)).func)
    with pytest.raises(UserError, match="expected a static extent of loop %i, but it is symbolic"):
        unknown(lambda s, b: s.unroll(s.loops(b, 2)[0]))


def test_partial_results_of_rows_of_symbolic_number():
    session = Session(fresh(OPEN))
    _, k = session.loops(session.block("s"), 2)
    session.rfactor(k, 0)
    assert "1099511627776" not in str(session.func)
    with pytest.raises(UserError, match=r"expected a loop of static extent, but that of loop %k is symbolic"):
        session.rfactor(session.loops(session.block("z"), 2)[1], 0)


def test_vectorized_loops_stay_innermost():
    session = Session(fresh(DENSE))
    i, j = session.loops(session.block("relu"), 2)
    session.vectorize(j)
    with pytest.raises(UserError, match="expected vectorized loops around one block, but loop %j would hold loop %i"):
        session.reorder(j, i)
    d = session.block("dense")
    i, j, k = session.loops(d, 3)
    session.vectorize(i, j, k)
    with pytest.raises(UserError, match="expected one block in the vectorized loop %i, but its initialization"):
        session.decompose_reduction(d, k)
