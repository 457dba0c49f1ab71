"""Every reason for which a directive is refused, by the schedule that is refused."""

import pytest
from sched_kernels import CONV, DENSE, ROWS, WINDOWS
from xdsl.parser import Parser

from mlc.driver.pipeline.registry import make_context
from mlc.passes.loop.apply_schedule import ApplySchedulePass
from mlc.support.errors import UserError

# One dimension, copied block by block: (name, extent, binding, load, store) in a loop %i of the same extent.
HEAD = "loop.func @f(%x: memref<16xf32>, %y: memref<16xf32>) attributes {outputs = 1 : i64} {\n"
COPY = """loop.block "{0}" (%v : 16 = %{1}) {{
  %a = loop.load %{2} : f32
  loop.store %a, %{3} : f32
}}
"""


def chain(*stages, allocs=("t",), loops="each"):
    """Stages "name source[index] target[index]", each in a loop of its own or all in one."""
    text = HEAD + "".join(f'%{a} = loop.alloc "shared" : memref<16xf32>\n' for a in allocs)
    blocks = [COPY.format(name, "i", source, target) for name, source, target in stages]
    if loops == "each":
        text += "".join(f"loop.for %i = 0 to 16 {{\n{b}}}\n" for b in blocks)
    else:
        text += f"loop.for %i = 0 to 16 {{\n{''.join(blocks)}}}\n"
    return text + "}\n"


TWO = chain(("p", "x[%v]", "t[%v]"), ("c", "t[%v]", "y[%v]"))
SHIFTED = chain(("p", "x[%v]", "t[%v]"), ("c", "t[%v floordiv 2]", "y[%v]"), loops="one")
SCAN = (
    HEAD
    + "loop.for %i = 0 to 15 { loop.for %j = 0 to 1 {\n"
    + COPY.replace("{1}", "i + 1").format("s", "", "y[%v - 1]", "y[%v]")
    + "} }\n}\n"
)
TRIANGLE = (
    HEAD
    + "loop.for %i = 0 to 16 {\n"
    + COPY.format("b", "i", "x[%v]", "y[%v]").replace("{\n", "where (%i - 3) {\n", 1)
    + "}\n}\n"
)
CARRIED = (
    HEAD
    + """  %z = arith.constant 0.0 : f32
  %r = loop.for %i = 0 to 16 iter_args(%s = %z) -> f32 {
    loop.block "b" (%v : 16 = %i) {
      %a = loop.load %x[%v] : f32
      loop.store %a, %y[%v] : f32
    }
    loop.yield %s : f32
  }
}
"""
)
FROM_ONE = HEAD + "loop.for %i = 1 to 16 {\n" + COPY.format("b", "i", "x[%v]", "y[%v]") + "}\n}\n"
GATHERED = chain(("p", "x[%v]", "t[%v]"), ("c", "t[%v]", "y[%v]")).replace(
    "%a = loop.load %t[%v] : f32",
    "%ix = loop.index d0 tile (d0 : 1) : vector<1xindex>\n"
    "  %g = loop.gather %t[%v] by %ix at 0 tile (d0 : 1) : vector<1xf32>\n  %a = loop.load %x[%v] : f32",
)
MIXED = (
    HEAD
    + """  loop.for %i = 0 to 64 {
    loop.block "sum" (%v : 16 = %i floordiv 4) reduce (%r : 4 = %i mod 4) init {
    ^bb0(%v : index, %r : index):
      %z = arith.constant 0.0 : f32
      loop.store %z, %y[%v] : f32
    } {
      %a = loop.load %x[%v] : f32
      %b = loop.load %y[%v] : f32
      %s = arith.addf %a, %b : f32
      loop.store %s, %y[%v] : f32
    }
  }
}
"""
)
IJK = '%c = sched.block "dense" : !sched.block\n%i, %j, %k = sched.loops %c : 3\n'
RELU = '%r = sched.block "relu" : !sched.block\n%ri, %rj = sched.loops %r : 2\n'
PC = (
    '%p = sched.block "p" : !sched.block\n%c = sched.block "c" : !sched.block\n'
    "%pi = sched.loops %p : 1\n%ci = sched.loops %c : 1\n"
)
CONVS = (
    '%pad = sched.block "pad" : !sched.block\n%pi, %pj = sched.loops %pad : 2\n'
    '%conv = sched.block "conv" : !sched.block\n%o, %h, %i, %k = sched.loops %conv : 4\n'
    '%out = sched.block "out" : !sched.block\n%oo, %oh = sched.loops %out : 2\n'
    '%pool = sched.block "pool" : !sched.block\n%po, %ph, %pk = sched.loops %pool : 3\n'
)
B = '%b = sched.block "{}" : !sched.block\n%i = sched.loops %b : 1\n'

CASES = [
    # finding
    (DENSE, '%c = sched.block "dens" : !sched.block', 'a block of @dense ("dense", "relu"), but got "dens"; did you'),
    (
        DENSE,
        '%c = sched.block "dense" : !sched.block\n%i = sched.loops %c : 1',
        '"dense", 3 (loop %i, loop %j, loop %k)',
    ),
    (DENSE, IJK + "%a = sched.loops %c under %i : 1", "under loop %i, 2 (loop %j, loop %k), but got 1"),
    (DENSE, IJK + RELU + "%a = sched.loops %r under %i : 1", 'a loop around block "relu", but got loop %i'),
    (DENSE, IJK + "%a = sched.child %i at 1 : !sched.loop", "expected a position below 1 in loop %i, but got 1"),
    (DENSE, IJK + "%a = sched.child %i at 0 : !sched.block", "expected a block at 0 in loop %i, but got loop %j"),
    # handles
    (DENSE, IJK + "%a, %b = sched.split %j [?, 4]\nsched.unroll %j", "%j was consumed by sched.split"),
    (DENSE, IJK + "%f = sched.fuse %i, %j\nsched.unroll %i", "%i was consumed by sched.fuse"),
    (TWO, PC + "sched.compute_inline %p\nsched.unroll %pi", "%pi was consumed by sched.compute_inline"),
    (TWO, PC + "sched.compute_at %p at %ci\nsched.unroll %pi", "%pi was consumed by sched.compute_at"),
    (DENSE, IJK + '%a, %b = sched.decompose_reduction %c at %k\nsched.set_scope %c "local"', "%c was consumed by"),
    (DENSE, IJK + "sched.reorder %i, %i", "expected different loops, but got loop %i twice"),
    (DENSE, "sched.reorder", "expected at least one loop"),
    # split, tile, fuse, peel
    (
        CARRIED,
        B.format("b") + "%a, %c = sched.split %i [?, 4]",
        "expected a loop that carries no values, but got loop %i",
    ),
    (FROM_ONE, B.format("b") + "%a, %c = sched.split %i [?, 4]", "expected a loop from 0 to a static or symbolic"),
    (DENSE, IJK + "sched.unroll %j\n%a, %b = sched.split %j [?, 4]", "a serial loop, but loop %j is unrolled"),
    (DENSE, IJK + "%a, %b = sched.split %j [4, 5]", "cover the 30 iterations of loop %j, but [4, 5] cover 20; use `?`"),
    (DENSE, IJK + "sched.split %j []", "expected at least one factor"),
    (
        DENSE,
        IJK + '%t = sched.knob "t" [-1] default -1\n%a, %b = sched.split %j [?, %t]',
        "expected a knob whose value is a positive integer",
    ),
    (DENSE, IJK + "%a, %b, %d, %e = sched.tile %i, %k [2, 2]", "expected loops directly inside each other, but got"),
    (DENSE, IJK + "%f = sched.fuse %i, %k", "outer to inner, but got loop %i, loop %k; use sched.reorder first"),
    (DENSE, IJK + "%f = sched.fuse %j, %k", 'loop %k reduces block "dense" and loop %j does not'),
    (DENSE, IJK + "%m, %r = sched.peel %i by 4", "expected between 1 and 3 iterations of loop %i to peel, but got 4"),
    (
        DENSE.replace("reduce (%vk : 20 = %k)", "reduce (%vk : 20 = 19 - %k)"),
        IJK + "%m, %r = sched.peel %k by 1",
        'cannot tell that block "dense" begins before the last iterations of loop %k',
    ),
    # reorder
    (DENSE, IJK + RELU + "sched.reorder %rj, %i", "expected loops inside each other, but loop %i and loop %j are not"),
    (
        DENSE,
        IJK + RELU + "sched.reverse_compute_at %r at %i\nsched.reorder %j, %i",
        "expected loop %j to be all that loop %i holds, but loop %i stands there too",
    ),
    (SCAN, '%s = sched.block "s" : !sched.block\n%i, %j = sched.loops %s : 2\nsched.reorder %j, %i', "through %y"),
    (
        SHIFTED,
        '%p = sched.block "p" : !sched.block\n%i = sched.loops %p : 1\nsched.parallel %i',
        'block "c" reads of %t what block "p" writes in other iterations',
    ),
    # parallel, bind, vectorize
    (
        chain(("p", "x[%v]", "y[%v floordiv 2]"), allocs=()),
        B.format("p") + "sched.parallel %i",
        'block "p" writes elements of %y more than once in loop %i, so that order matters',
    ),
    (DENSE, IJK + "sched.parallel %k", 'loop %k reduces block "dense"; use sched.rfactor to reduce in parallel'),
    (DENSE, IJK + 'sched.bind %k to "threadIdx.x"', 'loop %k reduces block "dense"'),
    (
        DENSE,
        IJK + "%jo, %ji = sched.split %j [?, 8]\nsched.parallel %i\nsched.parallel %ji",
        "already inside loop %i, which is parallel; use sched.fuse",
    ),
    (
        CONV,
        CONVS + "sched.reverse_compute_at %pool at %oo\nsched.compute_at %conv at %oh\n"
        '%1, %2, %3, %4 = sched.loops %conv under %oh : 4\nsched.set_scope %out "local"',
        "writes the output %y; use sched.cache_write",
    ),
    (
        ROWS,
        '%m = sched.block "max" : !sched.block\n%d = sched.block "diff" : !sched.block\n'
        "%i, %j = sched.loops %d : 2\nsched.compute_at %m at %j\nsched.parallel %j",
        'different iterations of loop %j accumulate block "max" in the same elements of %m',
    ),
    (
        ROWS,
        '%m = sched.block "max" : !sched.block\n%d = sched.block "diff" : !sched.block\n'
        "%i, %j = sched.loops %d : 2\nsched.parallel %j\nsched.compute_at %m at %j",
        "sched.compute_at: different iterations of loop %j accumulate",
    ),
    (TWO, PC + 'sched.parallel %pi\nsched.set_scope %p "local"', '%t is local to a thread of loop %i, but block "c"'),
    (
        TWO,
        PC + 'sched.set_scope %p "local"\nsched.parallel %ci',
        'but block "p" outside of that loop uses it; use scope',
    ),
    (DENSE, IJK + "sched.vectorize %i, %k", "outer to inner, but got loop %i, loop %k; use sched.reorder"),
    (DENSE, IJK + "sched.vectorize %k, %j", "outer to inner, but got loop %k, loop %j; use sched.reorder"),
    (DENSE, IJK + "sched.vectorize %i", "expected one block directly inside loop %i, but got loop %j"),
    # compute_at
    (TRIANGLE, B.format("b") + "sched.compute_at %b at %i", 'its whole domain, but block "b" runs on a part of it'),
    (
        DENSE,
        IJK + RELU + "%a, %u = sched.decompose_reduction %c at %k\nsched.compute_at %u at %ri",
        "its init region is gone; move it before sched.decompose_reduction",
    ),
    (DENSE, IJK + RELU + "sched.parallel %i\nsched.compute_at %c at %ri", "serial loops around block"),
    (DENSE, IJK + RELU + "sched.vectorize %rj\nsched.compute_at %c at %rj", "compute at, but loop %j is vectorized"),
    (DENSE, IJK + RELU + "sched.compute_at %r at %i", 'that only others need, but block "relu" writes the output %y'),
    (
        chain(("p", "x[%v]", "t[%v]"), ("q", "x[%v]", "t[%v]"), ("c", "t[%v]", "y[%v]")),
        PC + "sched.compute_at %p at %ci",
        'expected one block to write %t, but block "q" does as well',
    ),
    (
        chain(("p", "x[%v]", "t[%v]"), ("c", "x[%v]", "y[%v]")),
        PC + "sched.compute_at %p at %ci",
        'expected a consumer of block "p" below loop %i, but nothing reads %t',
    ),
    (TWO, PC + "sched.compute_at %p at %pi", 'block "c" reads block "p" outside of loop %i'),
    (
        chain(("c", "t[%v]", "y[%v]"), ("p", "x[%v]", "t[%v]")),
        PC + "sched.compute_at %p at %ci",
        'expected block "p" in front of loop %i, but it stands behind',
    ),
    (
        chain(("c", "t[%v]", "y[%v]"), ("p", "x[%v]", "t[%v]"), loops="one"),
        PC + "sched.compute_at %p at %pi",
        'expected block "p" in front of its consumers in loop %i',
    ),
    (
        chain(("p", "u[%v]", "t[%v]"), ("q", "x[%v]", "u[%v]"), ("c", "t[%v]", "y[%v]"), allocs=("t", "u")),
        PC + "sched.compute_at %p at %ci",
        'block "q" writes %u, which block "p" reads, behind the place where it is to be computed',
    ),
    (
        chain(("p", "t[%v]", "t[%v]"), ("c", "t[%v]", "y[%v]")),
        PC + "sched.compute_at %p at %ci",
        'that can be computed again, but block "p" goes on from what it wrote',
    ),
    # reverse_compute_at
    (DENSE, IJK + RELU + "sched.reverse_compute_at %r at %k", 'block "dense" still reduces over loop %k at loop %k'),
    (DENSE, IJK + RELU + "sched.reverse_compute_at %r at %ri", 'expected a producer of block "relu" below loop %i'),
    (
        chain(("c", "t[%v]", "y[%v]"), ("p", "x[%v]", "t[%v]"), loops="one"),
        PC + "sched.reverse_compute_at %c at %pi",
        'expected block "c" behind its producers',
    ),
    (CONV, CONVS + "sched.reverse_compute_at %conv at %pj", 'block "conv" reduces over elements of %p'),
    (CONV, CONVS + "sched.reverse_compute_at %pool at %oh", 'that block "out" has not written yet'),
    (
        ROWS,
        '%d = sched.block "diff" : !sched.block\n%i, %j = sched.loops %d : 2\n%s = sched.block "sum" : !sched.block\n'
        "sched.reverse_compute_at %s at %j",
        'block "sum" reduces over elements of %d from different iterations of loop %j',
    ),
    (
        DENSE,
        IJK + RELU + "%a, %b = sched.split %j [?, 12]\n%e, %f = sched.split %b [?, 5]\n"
        "sched.reorder %a, %e, %f, %k\nsched.reverse_compute_at %r at %e",
        'cannot tell which elements of %c block "dense" has written in one iteration of loop %e',
    ),
    (
        CONV,
        CONVS + '%r = sched.cache_read %pad[0] "shared"\n%1, %2 = sched.loops %r : 2\n'
        "sched.reverse_compute_at %pad at %2",
        'block "pad" has points that read nothing of %x',
    ),
    (
        chain(("p", "x[%v]", "t[%v]"), ("q", "x[%v]", "u[%v]"), ("c", "t[%v]", "y[%v]"), allocs=("t", "u")).replace(
            "%a = loop.load %t[%v] : f32", "%a0 = loop.load %u[%v] : f32\n  %a = loop.load %t[%v] : f32"
        ),
        PC + "sched.reverse_compute_at %c at %pi",
        'block "q" writes %u, which block "c" reads, behind loop %i',
    ),
    (
        chain(("p", "x[%v]", "t[%v]"), ("q", "y[%v]", "u[%v]"), ("c", "t[%v]", "y[%v]"), allocs=("t", "u")),
        PC + "sched.reverse_compute_at %c at %pi",
        'block "q" uses %y, which block "c" writes, in front of the place',
    ),
    (
        chain(("p", "x[%v]", "t[%v]"), ("c", "t[%v]", "y[%v]")).replace(
            "%a = loop.load %t[%v] : f32", "%a0 = loop.load %t[%v] : f32\n  %a = loop.load %t[%v floordiv 2] : f32"
        ),
        PC + "sched.reverse_compute_at %c at %pi",
        'block "c" reads elements of %t',
    ),
    # compute_inline
    (DENSE, IJK + "sched.compute_inline %c", 'without reduction, but block "dense" reduces; use sched.compute_at'),
    (TRIANGLE, B.format("b") + "sched.compute_inline %b", "runs on a part of it"),
    (TWO, PC + "sched.compute_inline %c", 'block "c" writes the output %y, which cannot be dropped'),
    (
        chain(("p", "x[%v]", "t[%v floordiv 2]"), ("c", "t[%v]", "y[%v]")),
        PC + "sched.compute_inline %p",
        'expected block "p" to store at its axes, each once',
    ),
    (
        chain(("p", "x[%v]", "t[%v]"), ("q", "x[%v]", "t[%v]"), ("c", "t[%v]", "y[%v]")),
        PC + "sched.compute_inline %p",
        'expected block "p" alone to write %t, and not to read it',
    ),
    (
        chain(("p", "x[%v]", "t[%v]"), ("c", "x[%v]", "y[%v]")),
        PC + "sched.compute_inline %p",
        'expected a consumer of block "p", but nothing reads %t',
    ),
    (
        chain(("c", "t[%v]", "y[%v]"), ("p", "x[%v]", "t[%v]")),
        PC + "sched.compute_inline %p",
        'block "c" reads block "p" in front of it',
    ),
    (
        chain(("p", "x[%v]", "t[%v]"), ("c", "t[%v]", "y[%v]")).replace(
            "%a = loop.load %t[%v] : f32",
            "%z = arith.constant 0.0 : f32\n%a = loop.load %t[%v] mask (%v - 1) else %z : f32",
        ),
        PC + "sched.compute_inline %p",
        "a masked or gathered read of %t cannot take its value; use te-inline",
    ),
    (
        chain(("p", "x[%v]", "t[%v]"), ("c", "t[%v]", "y[%v]")).replace(
            "loop.store %a, %t[%v] : f32", "loop.store %a, %t[%v] : f32\n  loop.store %a, %t[%v] : f32"
        ),
        PC + "sched.compute_inline %p",
        'expected a block that stores one value, but block "p" does not',
    ),
    # reductions
    (DENSE, IJK + RELU + "%a, %b = sched.decompose_reduction %r at %ri", 'block "relu", but it has no init region'),
    (
        DENSE,
        IJK + RELU + "%a, %b = sched.decompose_reduction %c at %ri",
        'a loop around block "dense", but got loop %i',
    ),
    (
        DENSE,
        IJK + "sched.reorder %i, %k, %j\n%a, %b = sched.decompose_reduction %c at %j",
        'loop %k reduces block "dense" outside of loop %j; decompose at loop %k',
    ),
    (
        DENSE,
        IJK + "%m, %s = sched.peel %k by 1\n%a, %b = sched.decompose_reduction %c at %j",
        'loop %s in loop %j uses what block "dense" writes',
    ),
    (DENSE, IJK + "%f = sched.rfactor %j axis 0", 'expected a loop that reduces block "dense" only, but got loop %j'),
    (DENSE, IJK + "%f = sched.rfactor %k axis 3", "expected an axis from 0 to 2, but got 3"),
    (DENSE, IJK + "%a, %b = sched.decompose_reduction %c at %k\n%f = sched.rfactor %k axis 0", "no init region"),
    (
        DENSE,
        IJK + RELU + "sched.reverse_compute_at %r at %i\n%f = sched.rfactor %i axis 0",
        'expected one block in loop %i, but got block "dense", block "relu"',
    ),
    (
        DENSE.replace("loop.fma %a, %b, %d : f32, f32, f32", "arith.subf %d, %b : f32"),
        IJK + "%f = sched.rfactor %k axis 0",
        'expected block "dense" to combine one value with what it has, by an op that commutes',
    ),
    (DENSE, IJK + "%m, %r = sched.peel %i by 1\n%f = sched.rfactor %k axis 0", "runs on a part of it"),
    (
        MIXED,
        '%b = sched.block "sum" : !sched.block\n%i = sched.loops %b : 1\n%a, %c = sched.decompose_reduction %b at %i',
        'loop %i runs along spatial and reduction axes of block "sum" at once',
    ),
    # buffers
    (DENSE, IJK + '%r = sched.cache_read %c[2] "local"', 'that block "dense" reads (%x, %w), but got 2'),
    (DENSE, IJK + '%r = sched.cache_read %c[0] "local" as f64', 'block "dense" to cast each element of %x to f64'),
    (
        chain(("c", "x[%v]", "y[%v]")).replace(
            "loop.store %a,",
            "%w = loop.cast extf %a : f32 to f64\n  %a2 = loop.cast truncf %w : f64 to f32\n  loop.store %a,",
        ),
        '%c = sched.block "c" : !sched.block\n%r = sched.cache_read %c[0] "local" as f64',
        'block "c" to cast each element of %x to f64',
    ),
    (DENSE, IJK + '%r = sched.cache_read %c[0] "attic"', "expected a scope of local, shared, global, but got 'attic'"),
    (
        chain(("c", "t[%v]", "y[%v]"), ("p", "x[%v]", "t[%v]")),
        PC + '%r = sched.cache_read %c[0] "local"',
        'expected %t to be written in front of block "c"',
    ),
    (
        chain(("c", "t[%v]", "y[%v]"), ("p", "x[%v]", "t[%v]")),
        PC + '%r = sched.cache_write %p "local"',
        'block "c" reads %t before block "p" has written it',
    ),
    (
        chain(("p", "x[%v]", "t[%v]"), ("c", "t[%v]", "y[%v]"), allocs=("t", "u")).replace(
            "loop.store %a, %t[%v] : f32", "loop.store %a, %t[%v] : f32\n  loop.store %a, %u[%v] : f32"
        ),
        PC + '%r = sched.cache_write %p "local"',
        'expected a block that writes one buffer, but block "p" writes 2',
    ),
    (DENSE, IJK + 'sched.set_scope %c "attic"', "expected a scope of local, shared, global, but got 'attic'"),
    (DENSE, RELU + "sched.transform_layout %r [d1, d0]", "writes the output %y; use sched.cache_write"),
    (
        DENSE,
        IJK + "sched.storage_align %c axis 1 factor 8 offset 0",
        "expected an axis below 1, the last one being dense",
    ),
    (DENSE, IJK + "sched.storage_align %c axis 0 factor 0 offset 0", "expected a positive factor, but got 0"),
    (
        DENSE,
        IJK + "sched.transform_layout %c [d0, d1 floordiv 4]",
        "expected a map that keeps elements apart, but d1 cannot be recovered from it",
    ),
    (DENSE, IJK + "sched.transform_layout %c [d0 - 1, d1]", "expected indices from 0, but d0 - 1 begins at -1"),
    (DENSE, IJK + "sched.transform_layout %c [d0, d1, d2]", "expected dimensions below d2, but got d2"),
    (
        WINDOWS,
        '%e = sched.block "e" : !sched.block\nsched.storage_align %e axis 0 factor 16 offset 4',
        "no padding makes the stride of axis 0 of %e 4 modulo 16: it is a multiple of 8",
    ),
    (
        GATHERED,
        PC + "sched.transform_layout %p [d0 floordiv 4, d0 mod 4]",
        "expected loads and stores of %t only, but got loop.gather",
    ),
    # tensorize
    (DENSE, IJK + 'sched.tensorize %k "dot"', "expected an intrinsic of dot_accumulate, but got 'dot'"),
    (DENSE, IJK + 'sched.tensorize %j "dot_accumulate"', "one block directly inside loop %j, but got loop %k"),
    (
        DENSE,
        IJK + 'sched.tensorize %k "dot_accumulate"',
        "without its init region; use sched.decompose_reduction first",
    ),
    (
        DENSE,
        IJK + "%a, %b = sched.split %k [?, 16]\n%m, %u = sched.decompose_reduction %c at %a\n"
        'sched.tensorize %b "dot_accumulate"',
        "to run in each iteration of loop %b, but it has a predicate",
    ),
    (TWO, PC + '%f, %g = sched.split %pi [?, 4]\nsched.tensorize %g "dot_accumulate"', "adds a product of two loads"),
    (
        DENSE,
        IJK + '%m, %u = sched.decompose_reduction %c at %j\nsched.reorder %k, %j\nsched.tensorize %j "dot_accumulate"',
        "expected loop %j not to move the result",
    ),
    (
        DENSE.replace("reduce (%vk : 20 = %k)", "reduce (%vk : 20 = 19 - %k)"),
        IJK + '%m, %u = sched.decompose_reduction %c at %k\nsched.tensorize %k "dot_accumulate"',
        'expected loop %k to step one axis of block "dense" by one',
    ),
]


def apply(kernel: str, schedule: str) -> None:
    name = kernel.split("@")[1].split("(")[0]
    module = Parser(make_context(), f"{kernel}\nsched.schedule @{name} {{\n{schedule}\n}}").parse_module()
    module.verify()
    ApplySchedulePass(verify=True).apply(make_context(), module)


@pytest.mark.parametrize(("kernel", "schedule", "message"), CASES, ids=[m[:50] for _, _, m in CASES])
def test_refusal(kernel, schedule, message):
    with pytest.raises(UserError) as error:
        apply(kernel, schedule)
    assert message in str(error.value)
    assert str(error.value).startswith("sched.")
    assert error.value.op.name == str(error.value).split(":")[0]
