"""The loop passes one by one: what they keep, what they refuse and how they say it, what they cost."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from loop_kernels import conv, gemm, rand
from loop_native import PASSES, close, differential, parse, reread
from xdsl.dialects.builtin import NameLoc, NoneAttr, StringAttr, UnknownLoc
from xdsl.utils.exceptions import PassFailedException

from mlc.dialects import loop
from mlc.interp import loop as interp
from mlc.passes.loop.compact_buffers import compact_buffers
from mlc.passes.loop.index_space.domain import loops_around, range_of
from mlc.passes.loop.partitioning.partition import partition
from mlc.passes.loop.tiles.form_tiles import form_tiles
from mlc.passes.loop.tiles.promote_tiles import promote_tiles


def func(args: str, body: str, outputs: int = 1) -> str:
    return f"loop.func @k({args}) attributes {{outputs = {outputs} : i64}} {{\n{body}\n}}"


def run(text: str, arrays, *passes):
    """The kernel after the passes, which must not change what it computes."""
    f = parse(text)
    before = [a.copy() for a in interp.run(f, arrays)]
    for rewrite in passes:
        rewrite(f)
        for a, b in zip(interp.run(reread(f), arrays, shuffle=0), before, strict=True):
            close(a, b, 1e-5)
    return f


def ops(f, kind):
    return [op for op in f.walk() if isinstance(op, kind)]


# --- loop-partition ---


@pytest.mark.parametrize("kind", ["", "parallel"])
@pytest.mark.parametrize(("m", "n"), [(7, 67), (8, 33), (9, 64), (3, 31)])
def test_partition_leaves_no_predicate_in_a_ragged_gemm(kind, m, n):
    text = gemm(m, n, 2, parallel=bool(kind))
    f = run(text, [rand(m, 2), rand(2, n), rand(n)], partition)
    assert all(b.where is None for b in ops(f, loop.BlockOp))


def test_partition_of_split_and_fused_loops_visits_each_point_once():
    for n in (1, 15, 16, 17, 63, 64, 65, 130):
        q = -(-n // 64)
        text = func(
            f"%Y: memref<3x{n}xi32>",
            f"""loop.for %a = 0 to 3 {{ loop.for %j = 0 to {n} {{
              %z = arith.constant 0 : i32
              loop.store %z, %Y[%a, %j] : i32
            }} }}
            loop.for %p = 0 to {3 * q} parallel {{ loop.for %b = 0 to 4 {{ loop.for %c = 0 to 16 {{
              loop.block "count" (%u : 3 = %p floordiv {q}, %v : {n} = (%p mod {q}) * 64 + %b * 16 + %c)
                  where ({n - 1} - (%p mod {q}) * 64 - %b * 16 - %c) {{
                %x = loop.load %Y[%u, %v] : i32
                %one = arith.constant 1 : i32
                %y = arith.addi %x, %one : i32
                loop.store %y, %Y[%u, %v] : i32
              }}
            }} }} }}""",
        )
        f = run(text, [], partition)
        assert (interp.run(f, [])[0] == 1).all()


@settings(max_examples=60)
@given(some.integers(1, 3), some.integers(1, 4), some.integers(1, 5), some.integers(1, 5), some.data())
def test_whole_and_partial_tiles_visit_each_point_once(rows, blocks, tiles, size, data):
    """A loop over tiles in a parallel one, with two blocks of predicates that are written differently."""
    step = tiles * size
    n = data.draw(some.integers(max(1, (blocks - 1) * step), blocks * step))
    block = f"(%p mod {blocks})"
    count = f"""loop.block "count" (%u : {rows} = %p floordiv {blocks}, %v : {n} = {block} * {step} + %b * {size} + %c)
        where ({n - 1} - {block} * {step} - %b * {size} - %c, {-(-n // size) - 1} - {block} * {tiles} - %b) {{
          %x = loop.load %Y[%u, %v] : i32
          %one = arith.constant 1 : i32
          %y = arith.addi %x, %one : i32
          loop.store %y, %Y[%u, %v] : i32
        }}"""
    text = func(
        f"%Y: memref<{rows}x{n}xi32>",
        f"""loop.for %a = 0 to {rows} {{ loop.for %j = 0 to {n} {{
          %z = arith.constant 0 : i32
          loop.store %z, %Y[%a, %j] : i32
        }} }}
        loop.for %p = 0 to {rows * blocks} parallel {{ loop.for %b = 0 to {tiles} {{
          loop.for %c = 0 to {size} {{ {count} }}
          loop.for %c = 0 to {size} {{ {count.replace(f", {-(-n // size) - 1} -", f", {-(-n // size)} -")} }}
        }} }}""",
    )
    f = run(text, [], partition)
    assert (interp.run(f, [])[0] == 2).all()


def test_a_block_that_never_runs_goes_with_its_loops():
    text = func(
        "%Y: memref<4xf32>",
        """loop.for %i = 0 to 4 {
          %z = arith.constant 0.0 : f32
          loop.store %z, %Y[%i] : f32
          loop.for %j = 0 to 2 { loop.block "never" (%v : 4 = %i + 7) where (-%i - 1) {
            %z2 = arith.constant 1.0 : f32
            loop.store %z2, %Y[%v] : f32
          } }
        }""",
    )
    f = run(text, [], partition)
    assert len(ops(f, loop.ForOp)) == 1
    assert not ops(f, loop.BlockOp)


# --- loop-form-tiles ---


VECTORIZED = "loop.for %i = 0 to 4 vectorized {"
STORE = "%z = arith.constant 0.0 : f32  loop.store %z, %Y[%v] : f32"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            f'{VECTORIZED} %q = arith.constant 1.0 : f32 loop.block "b" (%v : 4 = %i) {{ {STORE} }} }}',
            "stand perfectly round one block, but beside block 'b' the loop holds 1 other ops",
        ),
        (
            f'{VECTORIZED} loop.for %j = 0 to 1 {{ loop.block "b" (%v : 4 = %i + %j) {{ {STORE} }} }} }}',
            "the loop over %i of 'k' holds other loops; reorder it inside them",
        ),
        (
            f"""loop.for %n = 0 to 3 {{ loop.for %i = 0 to %n vectorized {{
              loop.block "b" (%v : 4 = %i) {{ {STORE} }} }} }}""",
            "expected a vectorized loop round 'b' to have a static extent",
        ),
        (
            f"""{VECTORIZED} loop.block "argmax" (%u : 1 = 0) reduce (%v : 4 = %i) {{
              %a = loop.load %Y[%u] : f32
              %x = loop.load %X[%v] : f32
              %c = loop.compare ogt %x, %a : f32
              %s = loop.select %c, %x, %a : i1, f32
              loop.store %s, %Y[%u] : f32
            }} }}""",
            "expected block 'argmax' to combine its accumulator by sum, prod, max or min, once, where a reduction loop "
            "is vectorized, but it stores a value of type vector<4xf32> in a tile of shape 1",
        ),
        (
            f"""{VECTORIZED} loop.block "scatter" (%u : 4 = %i) {{
              %p = loop.load %I[%u] : i64
              %k = loop.cast index_cast %p : i64 to index
              %n = loop.index %k mod 4 : index
              %x = loop.load %X[%n] : f32
              loop.store %x, %Y[%u] : f32
            }} }}""",
            "expected block 'scatter' to use index values read from memory only as indices of loads",
        ),
        (
            f"""{VECTORIZED} loop.block "scatter" (%u : 4 = %i) {{
              %p = loop.load %I[%u] : i64
              %k = loop.cast index_cast %p : i64 to index
              %x = loop.load %X[%u] : f32
              loop.store %x, %Y[%k] : f32
            }} }}""",
            "expected block 'scatter' to use index values read from memory only as indices of loads",
        ),
        (
            f"""{VECTORIZED} loop.block "take" (%u : 4 = %i) {{
              %p = loop.load %I[%u] : i64
              %k = loop.cast index_cast %p : i64 to index
              %x = loop.load %X[%k floordiv 2] : f32
              loop.store %x, %Y[%u] : f32
            }} }}""",
            "expected block 'take' to gather by one index value, times a constant",
        ),
        (
            f"""{VECTORIZED} loop.block "take" (%u : 3 = %i) where (2 - %i) {{
              %p = loop.load %I[%u] : i64
              %k = loop.cast index_cast %p : i64 to index
              %x = loop.load %Z[%k, %u] : f32
              loop.store %x, %Y[%u] : f32
            }} }}""",
            "expected block 'take' to gather inside of its buffer where its predicate fails, but index 1 of "
            "memref<4x3xf32> reaches from 0 to 3",
        ),
        (
            f"""{VECTORIZED} loop.block "sum" (%u : 1 = 0) reduce (%v : 4 = %i) where (1 - %i mod 3) {{
              %a = loop.load %Y[%u] : f32
              %x = loop.load %X[%v] : f32
              %s = arith.addf %x, %a : f32
              loop.store %s, %Y[%u] : f32
            }} }}""",
            "expected the predicate of block 'sum' to use each vectorized reduction loop once, and not in a mod",
        ),
    ],
)
def test_form_tiles_refuses(body, message):
    args = "%X: memref<4xf32>, %Z: memref<4x3xf32>, %I: memref<4xi64>, %Y: memref<4xf32>"
    f = parse(func(args, body))
    with pytest.raises(PassFailedException) as error:
        form_tiles(f)
    assert message in str(error.value)


def open_gather(mask: str) -> str:
    """Rows %h of %X, whose number is open, gathered from at computed columns, where a mask holds."""
    body = f"""loop.for %h = 0 to %n {{ loop.for %c = 0 to 3 {{ loop.for %i = 0 to 4 vectorized {{
      loop.block "take" (%a : %n = %h, %b : 3 = %c, %u : 4 = %i) {{
        %z = arith.constant 0.0 : f32
        %p = loop.load %I[%u] : i64
        %k = loop.cast index_cast %p : i64 to index
        %x = loop.load %X[%a, %k] mask ({mask}) else %z : f32
        loop.store %x, %Y[%a, %b, %u] : f32
      }} }} }} }}"""
    return func("%X: memref<?x4xf32>, %I: memref<4xi64>, %Y: memref<?x3x4xf32>, %n: index", body)


def test_a_gather_of_open_rows_under_a_mask_of_another_loop():
    """Rows are inside where the mask fails, since the load reads them for other values of the mask's loop."""
    x = rand(5, 4)
    f = parse(open_gather("1 - %b"))
    form_tiles(f)
    (gather,) = ops(f, loop.GatherOp)
    assert gather.result.type.get_shape() == (4,)
    (y,) = interp.run(f, [x, np.array([3, 1, 0, 2]), np.zeros((5, 3, 4), np.float32), 5])
    close(y, np.stack([x[:, [3, 1, 0, 2]]] * 2 + [np.zeros((5, 4), np.float32)], 1), 1e-6)


@pytest.mark.parametrize("mask", ["1 - %a", "1 - %a - %b", "%n - 5", "-1 - %b", "1 - %b, %b - 2"])
def test_a_gather_of_open_rows_under_a_mask_that_says_which_rows(mask):
    """Rows may be outside where a mask of rows, of an open size, or one that never holds, fails."""
    f = parse(open_gather(mask))
    with pytest.raises(PassFailedException, match="expected block 'take' to gather inside of its buffer"):
        form_tiles(f)


def test_an_op_with_a_region_is_refused_in_a_block():
    body = """loop.block "b" (%v : 4 = 0) {
      %c = arith.constant true
      scf.if %c { %z = arith.constant 0.0 : f32  loop.store %z, %Y[%v] : f32 }
    }"""
    with pytest.raises(PassFailedException, match="'b' to hold loads, stores and arithmetic, but got 'scf"):
        form_tiles(parse(func("%Y: memref<4xf32>", body)))


def test_vectorized_loops_need_not_start_at_zero():
    text = func(
        "%Y: memref<9xi32>",
        """loop.for %i = 0 to 9 { %z = arith.constant 0 : i32 loop.store %z, %Y[%i] : i32 }
        loop.for %i = 3 to 9 vectorized { loop.block "b" (%v : 9 = %i) {
          %n = arith.index_cast %v : index to i32
          loop.store %n, %Y[%v] : i32
        } }""",
    )
    run(text, [], *PASSES)


# --- loop-compact-buffers ---


def test_compact_shrinks_the_rows_of_a_padded_convolution():
    f = parse(conv(16, 32, 9, tile=3))
    for rewrite in (partition, form_tiles, compact_buffers):
        rewrite(f)
    sizes = {a.result.name_hint: tuple(a.result.type.get_shape()) for a in ops(f, loop.AllocOp)}
    assert sizes == {"P": (1, 3, 11, 16), "T": (2, 1, 3, 16)}
    assert {a.scope.data for a in ops(f, loop.AllocOp)} == {"local"}


def test_a_buffer_stays_outside_of_the_loop_whose_iterations_share_it():
    text = func(
        "%X: memref<4x6xf32>, %Y: memref<4xf32>",
        """%s = loop.alloc "shared" : memref<4xf32>
        loop.for %i = 0 to 4 { loop.for %k = 0 to 6 {
          loop.block "sum" (%v : 4 = %i) reduce (%r : 6 = %k) init {
          ^bb0(%v : index, %r : index):
            %z = arith.constant 0.0 : f32
            loop.store %z, %s[%v] : f32
          } {
            %a = loop.load %s[%v] : f32
            %x = loop.load %X[%v, %r] : f32
            %n = arith.addf %a, %x : f32
            loop.store %n, %s[%v] : f32
            loop.store %n, %Y[%v] : f32
          }
        } }""",
    )
    f = run(text, [rand(4, 6)], *PASSES)
    (alloc,) = ops(f, loop.AllocOp)
    assert [lp.iv.name_hint for lp in loops_around(alloc)] == ["i"]
    assert tuple(alloc.result.type.get_shape()) == (1,)


def test_a_gathered_axis_keeps_its_size():
    text = func(
        "%X: memref<8xf32>, %I: memref<4xi64>, %Y: memref<4xf32>",
        """%b = loop.alloc "shared" : memref<8xf32>
        loop.for %j = 0 to 2 {
          loop.for %i = 0 to 8 { %x = loop.load %X[%i] : f32 loop.store %x, %b[%i] : f32 }
          %n = loop.load %I[%j * 2 + d0] tile (d0 : 2) : vector<2xi64>
          %k = loop.cast index_cast %n : vector<2xi64> to vector<2xindex>
          %g = loop.gather %b[0] by %k at 0 tile (d0 : 2) : vector<2xf32>
          loop.store %g, %Y[%j * 2 + d0] tile (d0 : 2) : vector<2xf32>
        }""",
    )
    f = run(text, [rand(8), np.array([7, 0, 3, 5])], compact_buffers)
    assert tuple(ops(f, loop.AllocOp)[0].result.type.get_shape()) == (8,)


# --- loop-promote-tiles ---


def test_a_masked_accumulator_is_carried_too():
    text = func(
        "%A: memref<3x19xf32>, %C: memref<19xf32>",
        """%0 = arith.constant 0.0 : f32
        %z = loop.broadcast %0 : f32 to vector<32xf32>
        loop.store %z, %C[d0] mask (18 - d0) tile (d0 : 32) : vector<32xf32>
        loop.for %k = 0 to 3 {
          %e = loop.broadcast %0 : f32 to vector<32xf32>
          %c = loop.load %C[d0] mask (18 - d0) else %e tile (d0 : 32) : vector<32xf32>
          %a = loop.load %A[%k, d0] mask (18 - d0) else %e tile (d0 : 32) : vector<32xf32>
          %n = arith.addf %c, %a : vector<32xf32>
          loop.store %n, %C[d0] mask (18 - d0) tile (d0 : 32) : vector<32xf32>
        }""",
    )
    f = run(text, [rand(3, 19)], promote_tiles)
    assert len(ops(f, loop.ForOp)[0].results) == 1


def test_a_masked_accumulator_whose_lanes_mix_stays():
    text = func(
        "%C: memref<3xf32>",
        """%0 = arith.constant 1.0 : f32
        %z = loop.broadcast %0 : f32 to vector<4xf32>
        loop.store %z, %C[d0] mask (2 - d0) tile (d0 : 4) : vector<4xf32>
        loop.for %k = 0 to 3 {
          %c = loop.load %C[d0] mask (2 - d0) else %z tile (d0 : 4) : vector<4xf32>
          %s = loop.reduce sum %c axes [0] : vector<4xf32> to vector<1xf32>
          %w = loop.broadcast %s : vector<1xf32> to vector<4xf32>
          loop.store %w, %C[d0] mask (2 - d0) tile (d0 : 4) : vector<4xf32>
        }""",
    )
    f = run(text, [], promote_tiles)
    assert not ops(f, loop.ForOp)[0].results


@pytest.mark.parametrize(
    "middle", ["loop.store %z, %C[%k] : f32", "%q = loop.load %C[%k] : f32  loop.store %q, %D[%k] : f32"]
)
def test_an_accumulator_that_others_touch_stays_in_memory(middle):
    text = func(
        "%C: memref<4xf32>, %D: memref<4xf32>",
        f"""%z = arith.constant 1.0 : f32
        loop.for %k = 0 to 4 {{ loop.store %z, %C[%k] : f32  loop.store %z, %D[%k] : f32 }}
        loop.for %k = 0 to 4 {{
          %c = loop.load %C[0] : f32
          %n = arith.addf %c, %c : f32
          loop.store %n, %C[0] : f32
          {middle}
        }}""",
        outputs=2,
    )
    run(text, [], promote_tiles)


def test_two_accumulators_and_one_in_an_inner_loop():
    text = func(
        "%X: memref<3x5xf32>, %S: memref<1xf32>, %M: memref<1xf32>, %T: memref<3xf32>",
        """%z = arith.constant 0.0 : f32
        loop.store %z, %S[0] : f32
        loop.store %z, %M[0] : f32
        loop.for %i = 0 to 3 {
          loop.store %z, %T[%i] : f32
          loop.for %j = 0 to 5 {
            %x = loop.load %X[%i, %j] : f32
            %s = loop.load %S[0] : f32
            %m = loop.load %M[0] : f32
            %t = loop.load %T[%i] : f32
            %s2 = arith.addf %s, %x : f32
            %m2 = arith.maximumf %m, %x : f32
            %t2 = arith.addf %t, %x : f32
            loop.store %s2, %S[0] : f32
            loop.store %m2, %M[0] : f32
            loop.store %t2, %T[%i] : f32
          }
        }""",
        outputs=3,
    )
    f = run(text, [rand(3, 5)], promote_tiles)
    assert [len(lp.results) for lp in ops(f, loop.ForOp)] == [2, 3]


def test_division_by_what_may_be_zero_is_not_hoisted():
    text = func(
        "%D: memref<1xi32>, %Y: memref<1xi32>",
        """%d = loop.load %D[0] : i32
        %one = arith.constant 1 : i32
        loop.store %one, %Y[0] : i32
        loop.for %n = 0 to 2 { loop.for %g = 0 to %n {
          %q = arith.divsi %one, %d : i32
          loop.store %q, %Y[0] : i32
        } }""",
    )
    f = parse(text)
    promote_tiles(f)
    (division,) = [op for op in f.walk() if op.name == "arith.divsi"]
    assert len(loops_around(division)) == 2


# --- all of them ---


def test_ranges_of_loop_indices():
    f = parse(func("%Y: memref<9xf32>", "loop.for %i = 2 to 5 { loop.for %j = %i to %i * 2 {} }"))
    outer, inner = ops(f, loop.ForOp)
    assert range_of(outer.iv) == (2, 4)
    assert range_of(inner.iv) == (2, 7)


def test_the_innermost_loop_of_a_convolution_is_small():
    f = parse(conv(64, 64, 28, tile=14))
    for rewrite in PASSES:
        rewrite(f)
    (inner,) = [lp for lp in ops(f, loop.ForOp) if lp.iv.name_hint == "ib"]
    assert len(list(inner.body.block.ops)) <= 8
    assert [str(r.type) for r in inner.results] == ["vector<14x2x16xf32>"]


def test_blocks_of_k_accumulate_in_the_output():
    """K in blocks on the output itself: init once, two reduction loops that carry the tile."""
    text = func(
        "%A: memref<4x6xf32>, %B: memref<6x16xf32>, %C: memref<4x16xf32>",
        """loop.for %i = 0 to 4 vectorized { loop.for %j = 0 to 16 vectorized {
          loop.block "init" (%u : 4 = %i, %v : 16 = %j) { %z = arith.constant 0.0 : f32
            loop.store %z, %C[%u, %v] : f32 } } }
        loop.for %ko = 0 to 2 { loop.for %ki = 0 to 3 {
          loop.for %i = 0 to 4 vectorized { loop.for %j = 0 to 16 vectorized {
            loop.block "mm" (%u : 4 = %i, %v : 16 = %j) reduce (%k : 6 = %ko * 3 + %ki) {
              %a = loop.load %A[%u, %k] : f32
              %b = loop.load %B[%k, %v] : f32
              %c = loop.load %C[%u, %v] : f32
              %n = loop.fma %a, %b, %c : f32, f32, f32
              loop.store %n, %C[%u, %v] : f32
            } } }
        } }""",
    )
    a, b = rand(4, 6), rand(6, 16, seed=1)
    f = differential(text, [a, b], [a @ b])
    assert [len(lp.results) for lp in ops(f, loop.ForOp)] == [1, 1]
    assert len(ops(f, loop.StoreOp)) == 1


# --- locations ---


@pytest.mark.parametrize("n", [32, 67])
def test_every_operation_keeps_a_location(n):
    f = parse(gemm(7, n, 9))
    for op in f.walk():
        op.location = NameLoc(StringAttr("matmul"), NoneAttr())
    for rewrite in PASSES:
        rewrite(f)
    assert ops(f, loop.FmaOp)
    assert [
        str(op) for op in f.walk() if isinstance(op.location, UnknownLoc) and not isinstance(op, loop.YieldOp)
    ] == []
