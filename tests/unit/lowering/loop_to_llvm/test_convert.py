"""Native code of loop kernels against the reference interpreter, before and after each loop pass."""

from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from loop_kernels import conv, conv_reference, gemm, layer_norm, rand, softmax
from loop_native import close, differential, native_kernel, parse
from loop_random import kernels, stencils

from mlc.interp import loop as interp
from mlc.lowering.loop_to_llvm.convert import lower_kernel
from mlc.support.errors import UserError, collected_warnings

TYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "i8": np.int8,
    "i32": np.int32,
    "i64": np.int64,
    "i1": np.bool_,
}


def nest(loops: str, block: str, head: str = "") -> str:
    """`i:4 j:16v` as loops (v: vectorized, p: parallel, u: unrolled) round a block."""
    kinds = {"v": "vectorized", "p": "parallel", "u": "unrolled"}
    text = block
    for loop in reversed(loops.split()):
        name, n = loop.split(":")
        kind = kinds.get(n[-1], "")
        text = f"loop.for %{name} = 0 to {n.rstrip('vpu')} {kind} {{\n{text}\n}}"
    return head + text


def func(args: str, body: str, outputs: int = 1) -> str:
    return f"loop.func @k({args}) attributes {{outputs = {outputs} : i64}} {{\n{body}\n}}"


def lanes(n: int, body: str, args: str, outputs: int = 1, parallel: bool = False) -> str:
    """A kernel over one vectorized axis %v."""
    text = nest(f"i:{n}v", f'loop.block "b" (%v : {n} = %i) {{ {body} }}')
    return func(args, nest("p:1p", text) if parallel else text, outputs)


@pytest.mark.parametrize(("m", "n", "k"), [(8, 64, 5), (7, 67, 3), (1, 1, 1), (4, 31, 2), (13, 33, 1)])
def test_gemm_of_exact_and_ragged_sizes(m, n, k):
    a, b, c = rand(m, k), rand(k, n, seed=1), rand(n, seed=2)
    differential(gemm(m, n, k), [a, b, c], [np.maximum(a @ b + c, 0)], widths=(128, 512))


def test_gemm_whose_outer_loops_are_fused():
    m, n, k = 7, 37, 3
    text = gemm(m, n, k, epilogue=False)
    head = "loop.for %io = 0 to 2 parallel {\n    loop.for %jo = 0 to 2 {"
    assert head in text
    text = text.replace(head, "loop.for %p = 0 to 4 parallel {").replace("\n  }\n}", "\n}")
    text = text.replace("%io * 4", "(%p floordiv 2) * 4").replace("%jo * 32", "(%p mod 2) * 32")
    a, b = rand(m, k), rand(k, n, seed=1)
    after = differential(text, [a, b, rand(n)], [a @ b])
    assert "mask" not in str(after)
    assert "vector<4x32xf32>" in str(after)
    assert "vector<3x5xf32>" in str(after)


@pytest.mark.parametrize(
    "options", [{"hw": 4, "tile": 2}, {"hw": 5, "tile": 2, "stride": 2}, {"hw": 3, "tile": 2, "k": 1}]
)
def test_blocked_convolution(options):
    k, hw = options.get("k", 3), options["hw"]
    x, f, b = rand(1, hw, hw, 16), rand(2, 1, k, k, 16, 16, seed=1) * np.float32(0.1), rand(2, 16, seed=2)
    differential(conv(**options), [x, f, b], [conv_reference(x, f, b, options.get("stride", 1))], 1e-4)


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 35, 67])
def test_softmax_over_rows(n):
    x = rand(3, n) * 3
    e = np.exp(x - x.max(1, keepdims=True))
    differential(softmax(3, n), [x], [e / e.sum(1, keepdims=True)])


@pytest.mark.parametrize("n", [1, 16, 33, 67])
def test_layer_norm(n):
    x, g = rand(2, n), rand(n, seed=3)
    expected = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * g
    differential(layer_norm(2, n), [x, g], [expected], 1e-4)


def depthwise(w: int, tile: int) -> str:
    axes = f"%vw : {w} = %wo * {tile} + %w, %vb : 16 = %b"
    guard = f"where ({w - 1} - %wo * {tile} - %w)" if w % tile else ""
    tiles = f"w:{tile}v b:16v"
    init = f'loop.block "init" ({axes}) {guard} {{ %z = arith.constant 0.0 : f32 loop.store %z, %Y[%vw, %vb] : f32 }}'
    body = f"""loop.block "dw" ({axes}) reduce (%vk : 3 = %k) {guard} {{
      %x = loop.load %X[%vw + %vk, %vb] : f32
      %f = loop.load %F[%vk, %vb] : f32
      %a = loop.load %Y[%vw, %vb] : f32
      %n = loop.fma %x, %f, %a : f32, f32, f32
      loop.store %n, %Y[%vw, %vb] : f32
    }}"""
    inner = nest(tiles, init) + nest(f"k:3u {tiles}", body)
    return func(
        f"%X: memref<{w + 2}x16xf32>, %F: memref<3x16xf32>, %Y: memref<{w}x16xf32>", nest(f"wo:{-(-w // tile)}", inner)
    )


@pytest.mark.parametrize("w", [8, 11])
def test_depthwise_with_unrolled_taps(w):
    x, f = rand(w + 2, 16), rand(3, 16, seed=1)
    differential(depthwise(w, 4), [x, f], [sum(x[k : k + w] * f[k] for k in range(3))], widths=(256, 512))


REDUCTIONS = {
    ("sum", "f32"): ("arith.addf", "0.0", np.sum),
    ("max", "f32"): ("arith.maximumf", "0xff800000", np.max),
    ("min", "f64"): ("arith.minimumf", "0x7ff0000000000000", np.min),
    ("prod", "f32"): ("arith.mulf", "1.0", np.prod),
    ("sum", "i32"): ("arith.addi", "0", np.sum),
    ("max", "i8"): ("arith.maxsi", "-128", np.max),
    ("min", "i64"): ("arith.minsi", "9223372036854775807", np.min),
    ("prod", "i64"): ("arith.muli", "1", np.prod),
}


@pytest.mark.parametrize(("name", "dtype"), REDUCTIONS)
def test_reductions_along_lanes_of_every_length(name, dtype):
    op, start, expected = REDUCTIONS[name, dtype]
    for n in (1, 2, 3, 5, 16, 17, 31, 67):
        text = func(
            f"%X: memref<{n}x3x{dtype}>, %S: memref<3x{dtype}>",
            f"""loop.for %i = 0 to 3 {{
            loop.block "init" (%v : 3 = %i) {{
              %z = arith.constant {start} : {dtype}
              loop.store %z, %S[%v] : {dtype}
            }}
            loop.for %k = 0 to {n} vectorized {{ loop.block "r" (%v : 3 = %i) reduce (%vk : {n} = %k) {{
              %a = loop.load %S[%v] : {dtype}
              %x = loop.load %X[%vk, %v] : {dtype}
              %r = {op} %a, %x : {dtype}
              loop.store %r, %S[%v] : {dtype}
            }} }} }}""",
        )
        x = np.random.default_rng(n).integers(-3, 4, (n, 3)).astype(TYPES[dtype])
        widths = (512,) if n != 17 else (128, 256, 512)
        want = expected(x, axis=0, dtype=TYPES[dtype]) if name in ("sum", "prod") else expected(x, 0)
        differential(text, [x], [want], widths=widths)


def test_a_reduction_of_what_does_not_vary_counts_each_lane():
    text = func(
        "%X: memref<2xf32>, %S: memref<2xf32>",
        """loop.for %i = 0 to 2 vectorized { loop.block "init" (%v : 2 = %i) {
          %z = arith.constant 0.0 : f32
          loop.store %z, %S[%v] : f32
        } }
        loop.for %i = 0 to 2 vectorized { loop.for %k = 0 to 5 vectorized {
          loop.block "r" (%v : 2 = %i) reduce (%vk : 5 = %k) where (3 - %k) {
            %a = loop.load %S[%v] : f32
            %x = loop.load %X[%v] : f32
            %r = arith.addf %a, %x : f32
            %one = arith.constant 1.0 : f32
            %q = arith.addf %one, %r : f32
            loop.store %q, %S[%v] : f32
        } } }""",
    )
    differential(text, [np.float32([2, 3])], [np.float32([12, 16])])


def test_init_inside_a_block_with_a_split_and_vectorized_reduction():
    text = func(
        "%X: memref<4x19xf32>, %S: memref<4xf32>",
        """loop.for %i = 0 to 4 vectorized { loop.for %ki = 0 to 8 vectorized {
          loop.block "r" (%v : 4 = %i) reduce (%vk : 19 = %ko * 8 + %ki) where (18 - %ko * 8 - %ki) init {
          ^bb0(%v : index, %vk : index):
            %z = arith.constant 0.0 : f32
            loop.store %z, %S[%v] : f32
          } {
            %a = loop.load %S[%v] : f32
            %x = loop.load %X[%v, %vk] : f32
            %r = arith.addf %a, %x : f32
            loop.store %r, %S[%v] : f32
        } } }""",
    ).replace("{\nloop.for", "{\nloop.for %ko = 0 to 3 {\nloop.for", 1)
    x = rand(4, 19)
    differential(text + "\n}", [x], [x.sum(1)])


BYTES = {"f16": 2, "f32": 4, "f64": 8, "i1": 0, "i8": 1, "i32": 4, "i64": 8}


def cast_kind(source: str, target: str) -> str:
    wider = BYTES[source] < BYTES[target]
    if source[0] == target[0] == "f":
        return "extf" if wider else "truncf"
    if target[0] == "f":
        return "uitofp" if source == "i1" else "sitofp"
    if source[0] == "f":
        return "fptosi" if target != "i1" else "fptoui"
    return ("extui" if source == "i1" else "extsi") if wider else "trunci"


@pytest.mark.parametrize("target", TYPES)
def test_casts_from_all_types(target):
    sources = [t for t in TYPES if t != target]
    body, arrays = "", []
    for k, source in enumerate(sources):
        body += f"""%x{k} = loop.load %X{k}[%v] : {source}
          %y{k} = loop.cast {cast_kind(source, target)} %x{k} : {source} to {target}
          loop.store %y{k}, %Y{k}[%v] : {target}\n"""
        low, high = (0, 2) if "i1" in (source, target) else (-9, 9)
        x = np.random.default_rng(k).integers(low, high, 21).astype(TYPES[source])
        if source[0] == target[0] == "f":
            x = rand(21, seed=k).astype(TYPES[source]) + TYPES[source](1e-9)
        arrays.append(x)
    args = [f"%X{k}: memref<21x{t}>" for k, t in enumerate(sources)]
    args += [f"%Y{k}: memref<21x{target}>" for k in range(len(sources))]
    expected = [x.astype(TYPES[target]) for x in arrays]
    differential(lanes(21, body, ", ".join(args), len(sources)), arrays, expected, tolerance=0)


def test_compare_select_and_bits():
    body = """%x = loop.load %X[%v] : f32
      %y = loop.load %Y[%v] : f32
      %p = loop.load %P[%v] : i1
      %c = loop.compare olt %x, %y : f32
      %d = loop.compare une %x, %y : f32
      %e = arith.andi %c, %p : i1
      %s = loop.select %e, %x, %y : i1, f32
      loop.store %s, %Z[%v] : f32
      loop.store %d, %Q[%v] : i1"""
    x, y = rand(37), rand(37, seed=1)
    x[3] = y[4] = np.nan
    y[9] = x[9]
    p = rand(37, seed=2) > 0
    args = ", ".join(
        f"%{name}: memref<37x{t}>" for name, t in zip("XYPZQ", ("f32", "f32", "i1", "f32", "i1"), strict=True)
    )
    expected = [np.where((x < y) & p, x, y), x != y]
    differential(lanes(37, body, args, 2), [x, y, p], expected, widths=(128, 256, 512))


@pytest.mark.parametrize("op", ["maximumf", "minimumf"])
def test_nan_passes_through_maximum_and_minimum(op):
    body = f"""%x = loop.load %X[%v] : f32
      %y = loop.load %Y[%v] : f32
      %c = arith.constant 0.5 : f32
      %m = arith.{op} %x, %y : f32
      %n = arith.{op} %c, %m : f32
      loop.store %n, %Z[%v] : f32"""
    x, y = rand(20), rand(20, seed=1)
    x[[0, 5]] = y[[1, 5]] = np.nan
    x[7], y[8] = np.inf, -np.inf
    f = np.maximum if op == "maximumf" else np.minimum
    args = "%X: memref<20xf32>, %Y: memref<20xf32>, %Z: memref<20xf32>"
    differential(lanes(20, body, args), [x, y], [f(0.5, f(x, y))])


def test_transposes_and_reversals():
    text = func(
        "%X: memref<9x21xf32>, %Y: memref<21x9xf32>",
        nest(
            "j:21v i:9v",
            'loop.block "t" (%a : 21 = %j, %b : 9 = %i) {'
            "%x = loop.load %X[8 - %b, %a] : f32 loop.store %x, %Y[20 - %a, %b] : f32 }",
        ),
    )
    x = rand(9, 21)
    differential(text, [x], [x[::-1].T[::-1]], widths=(128, 512))


def test_concatenation_by_chained_masks():
    body = """%z = arith.constant 0.0 : f32
      %b = loop.load %B[%v - 7] mask (%v - 7) else %z : f32
      %a = loop.load %A[%v] mask (6 - %v) else %b : f32
      loop.store %a, %C[%v] : f32"""
    a, b = rand(7), rand(14, seed=1)
    differential(
        lanes(21, body, "%A: memref<7xf32>, %B: memref<14xf32>, %C: memref<21xf32>"), [a, b], [np.concatenate([a, b])]
    )


def test_else_values_that_vary_where_the_access_does_not():
    body = """%y = loop.load %Y[%v] : f32
      %x = loop.load %X[%p * 4] mask (1 - %p, 4 - %v) else %y : f32
      loop.store %x, %Z[%p, %v] : f32"""
    text = func(
        "%X: memref<5xf32>, %Y: memref<20xf32>, %Z: memref<3x20xf32>",
        nest("i:3 j:20v", f'loop.block "b" (%p : 3 = %i, %v : 20 = %j) {{ {body} }}'),
    )
    x, y = rand(5), rand(20, seed=1)
    expected = np.tile(y, (3, 1))
    expected[0, :5], expected[1, :5] = x[0], x[4]
    differential(text, [x, y], [expected])


GATHER = """%zero = arith.constant 0.0 : f32
      %n = loop.load %I[INDEX] : i64
      %k = loop.cast index_cast %n : i64 to index
      %x = loop.load %X[EXPR] MASK : f32
      loop.store %x, %Y[%u, %v] : f32"""


@pytest.mark.parametrize(
    ("index", "expr", "mask", "want"),
    [
        ("%u", "%k, %v", "", lambda x, i: x[i[:5], :][:, :21]),
        ("%v", "%u, %k", "", lambda x, i: x[:5, i]),
        ("%v", "%k, %v", "", lambda x, i: x[i, np.arange(21)][None].repeat(5, 0)),
        ("%u", "%k * 2, 20 - %v", "", lambda x, i: x[i[:5] * 2, ::-1][:, :21]),
        ("%v", "%k, %u", "mask (%v - 3) else %zero", lambda x, i: np.where(np.arange(21) >= 3, x[i, :5].T, 0)),
    ],
)
def test_gathers(index, expr, mask, want):
    body = GATHER.replace("INDEX", index).replace("EXPR", expr).replace("MASK", mask)
    text = func(
        "%X: memref<21x21xf32>, %I: memref<21xi64>, %Y: memref<5x21xf32>",
        nest("i:5v j:21v", f'loop.block "take" (%u : 5 = %i, %v : 21 = %j) {{ {body} }}'),
    )
    x, i = rand(21, 21), np.random.default_rng(0).integers(0, 10, 21)
    differential(text, [x, i], [want(x, i)], widths=(128, 512))


def test_pooling_with_a_masked_window():
    text = func(
        "%X: memref<9x16xf32>, %Y: memref<5x16xf32>",
        """loop.for %i = 0 to 5 vectorized { loop.for %b = 0 to 16 vectorized {
        loop.block "init" (%v : 5 = %i, %w : 16 = %b) {
          %z = arith.constant 0xff800000 : f32
          loop.store %z, %Y[%v, %w] : f32
        } } }
        loop.for %k = 0 to 3 { loop.for %i = 0 to 5 vectorized { loop.for %b = 0 to 16 vectorized {
          loop.block "max" (%v : 5 = %i, %w : 16 = %b) reduce (%vk : 3 = %k) {
            %z = arith.constant 0xff800000 : f32
            %x = loop.load %X[%v * 2 + %vk - 1, %w] mask (%v * 2 + %vk - 1, 9 - %v * 2 - %vk) else %z : f32
            %a = loop.load %Y[%v, %w] : f32
            %r = arith.maximumf %a, %x : f32
            loop.store %r, %Y[%v, %w] : f32
        } } } }""",
    )
    x = rand(9, 16)
    p = np.pad(x, ((1, 1), (0, 0)), constant_values=-np.inf)
    differential(text, [x], [np.stack([p[k : k + 9 : 2] for k in range(3)]).max(0)])


def test_indices_as_values_and_dense_constants():
    text = func(
        "%Y: memref<3x7xi64>",
        """%t = arith.constant dense<[[1, 2, 3, 4, 5, 6, 7]]> : vector<1x7xi64>
        %w = loop.broadcast %t : vector<1x7xi64> to vector<3x7xi64>
        %i = loop.index (d1 mod 3) * 10 + d0 tile (d0 : 3, d1 : 7) : vector<3x7xindex>
        %j = loop.cast index_cast %i : vector<3x7xindex> to vector<3x7xi64>
        %s = arith.addi %w, %j : vector<3x7xi64>
        loop.store %s, %Y[d0, d1] tile (d0 : 3, d1 : 7) : vector<3x7xi64>""",
    )
    a = np.arange(7)
    differential(text, [], [a + 1 + a % 3 * 10 + np.arange(3)[:, None]], passes=(), widths=(128, 512))


@pytest.mark.parametrize(("axis", "one"), [(0, "1x3x21"), (1, "2x1x21"), (2, "2x3x1")])
def test_concatenated_tiles(axis, one):
    """Values side by side, also as the lanes of whole and ragged vectors."""
    both, size = "2x3x21", (2, 3, 21)[axis]
    at = [", ".join(str(k) if d == axis else f"d{d}" for d in range(3)) for k in reversed(range(size))]
    tile = "tile (d0 : 2, d1 : 3, d2 : 21)"
    loads = [f"%x{k} = loop.load %X[{at[k]}] {tile} : vector<{one}xf32>" for k in range(size)]
    names = ", ".join(f"%x{k}" for k in range(size))
    text = func(
        "%X: memref<2x3x21xf32>, %Y: memref<2x3x21xf32>",
        "\n".join(loads)
        + f"""
        %c = loop.concat {names} axis {axis} : vector<{one}xf32> to vector<{both}xf32>
        loop.store %c, %Y[d0, d1, d2] {tile} : vector<{both}xf32>""",
    )
    x = rand(2, 3, 21)
    differential(text, [x], [np.flip(x, axis)], passes=(), widths=(128, 256, 512))


@pytest.mark.parametrize(("axis", "one"), [(0, "1x3x21"), (1, "2x1x21")])
def test_slices_of_tiles(axis, one):
    """One place of an axis, also of ragged vectors."""
    whole, sizes = "2x3x21", [int(n) for n in one.split("x")]
    tile = ", ".join(f"d{k} : {n}" for k, n in enumerate(sizes))
    text = func(
        f"%X: memref<{whole}xf32>, %Y: memref<{one}xf32>",
        f"""%x = loop.load %X[d0, d1, d2] tile (d0 : 2, d1 : 3, d2 : 21) : vector<{whole}xf32>
        %s = loop.slice %x axis {axis} at 1 : vector<{whole}xf32> to vector<{one}xf32>
        loop.store %s, %Y[d0, d1, d2] tile ({tile}) : vector<{one}xf32>""",
    )
    x = rand(2, 3, 21)
    differential(text, [x], [x.take([1], axis)], passes=(), widths=(128, 256, 512))


def test_block_axes_as_values():
    body = """%n = arith.index_cast %v : index to i32
      %m = loop.index %v * 2 + 1 : index
      %k = arith.index_cast %m : index to i32
      %s = arith.addi %n, %k : i32
      loop.store %s, %Y[%v] : i32"""
    differential(lanes(19, body, "%Y: memref<19xi32>"), [], [np.arange(19, dtype=np.int32) * 3 + 1])


def test_buffers_without_dimensions():
    body = """%x = loop.load %X[] : f64
      %y = arith.addf %x, %x : f64
      loop.store %y, %Y[] : f64"""
    text = func(
        "%X: memref<f64>, %Y: memref<f64>",
        nest("i:1v", f'loop.block "b" (%v : 1 = %i) {{ {body} }}'),
    )
    differential(text, [np.array(2.5)], [np.array(5.0)])


def test_threads_have_their_own_scratch_and_share_the_workspace():
    text = func(
        "%X: memref<6x20xf32>, %Y: memref<6x20xf32>",
        """%L = loop.alloc "local" : memref<20xf32>
        %W = loop.alloc "shared" : memref<6x20xf32>
        loop.for %i = 0 to 6 parallel {
          loop.for %j = 0 to 20 { %x = loop.load %X[%i, %j] : f32  loop.store %x, %L[19 - %j] : f32 }
          loop.for %j = 0 to 20 { %x = loop.load %L[%j] : f32  loop.store %x, %W[%i, %j] : f32 }
        }
        loop.for %i = 0 to 6 parallel { loop.for %q = 0 to 2 parallel {
          loop.for %j = 0 to 10 { %x = loop.load %W[5 - %i, %q * 10 + %j] : f32
            loop.store %x, %Y[%i, %q * 10 + %j] : f32 }
        } }""",
    )
    x = rand(6, 20)
    differential(text, [x], [x[::-1, ::-1]], passes=())
    functions = lower_kernel(parse(text), 16)
    assert [f.sym_name.data for f in functions] == ["k.parallel0", "k.parallel1", "k"]
    assert functions[-1].attributes["mlc.scratch_bytes"].value.data >= 80
    assert functions[-1].attributes["mlc.workspace_bytes"].value.data >= 480


def test_buffers_in_loops_with_indices_from_outside_of_them():
    body = """loop.for %i = 0 to 3 parallel {{ loop.for %r = 0 to 2 {{
      %L = loop.alloc "local" : memref<3x4xf32>
      %W = loop.alloc "{scope}" : memref<3x4xf32>
      loop.for %j = 0 to 4 {{ %x = loop.load %X[%i, %r, %j] : f32  loop.store %x, %L[%i, 3 - %j] : f32 }}
      loop.for %j = 0 to 4 {{ %x = loop.load %L[%i, %j] : f32  loop.store %x, %W[%i, %j] : f32 }}
      loop.for %j = 0 to 4 {{ %x = loop.load %W[%i, %j] : f32  loop.store %x, %Y[%i, %r, %j] : f32 }}
    }} }}"""
    x = rand(3, 2, 4)
    for kind, scope in (("parallel", "local"), ("", "shared")):
        text = func("%X: memref<3x2x4xf32>, %Y: memref<3x2x4xf32>", body.format(scope=scope).replace("parallel", kind))
        differential(text, [x], [x[:, :, ::-1]], passes=())


def test_symbols_of_sizes_are_arguments():
    text = func(
        "%X: memref<?x3xf32>, %Y: memref<?x3xf32>, %n: index",
        "loop.for %i = 0 to %n parallel { loop.for %j = 0 to 3 {"
        "%x = loop.load %X[%n - %i - 1, %j] : f32  loop.store %x, %Y[%i, %j] : f32 } }",
    )
    x = rand(5, 3)
    (expected,) = interp.run(parse(text), [x, np.zeros_like(x), 5])
    static = parse(text.replace("?", "5"))
    (y,) = native_kernel(static)([x, 5])
    close(y, expected, 0)


def test_buffers_of_two_element_types_share_a_slot():
    """The last eight elements of both begin at places of their own, though the memory is the same."""
    body = """
    %A = loop.alloc "local" (%n) {mlc.slot = 0 : i64} : memref<?xi64>
    %B = loop.alloc "local" (%n) {mlc.shares = 0 : i64} : memref<?xf32>
    loop.for %i = 0 to 8 {
      %v = loop.cast index_cast %i : index to i64
      loop.store %v, %A[%i + %n - 8] : i64
    }
    loop.for %i = 0 to 8 {
      %v = loop.load %A[%i + %n - 8] : i64
      %w = loop.cast sitofp %v : i64 to f32
      loop.store %w, %Y[%i] : f32
    }
    loop.for %i = 0 to %n { %x = loop.load %X[%i] : f32  loop.store %x, %B[%i] : f32 }
    loop.for %i = 0 to 8 {
      %x = loop.load %B[%i + %n - 8] : f32
      %y = loop.load %Y[%i] : f32
      %z = arith.addf %x, %y : f32
      loop.store %z, %Y[%i] : f32
    }"""
    x = rand(21)
    static = parse(func("%X: memref<21xf32>, %Y: memref<8xf32>, %n: index", body))
    (y,) = native_kernel(static)([x, 21])
    close(y, x[-8:] + np.arange(8, dtype=np.float32), 0)


@settings(max_examples=25, database=None, suppress_health_check=list(HealthCheck))
@given(kernels())
def test_random_kernels(kernel):
    text, arrays = kernel
    differential(text, arrays, tolerance=1e-5, widths=([128, 256, 512][prod(a.size for a in arrays) % 3],))


@settings(max_examples=20, database=None, suppress_health_check=list(HealthCheck))
@given(stencils())
def test_random_stages_in_scratch(kernel):
    differential(*kernel, tolerance=0)


# --- warnings and refusals ---


def warnings_of(kernel, *arguments, **options):
    """The warnings of lowering a kernel."""
    with collected_warnings() as found:
        lower_kernel(kernel, *arguments, **options)
    return found


def test_a_tile_that_does_not_fit_the_registers_is_named():
    f = differential(gemm(16, 64, 2, mr=16, nr=64, epilogue=False), [rand(16, 2), rand(2, 64), rand(64)], widths=())
    assert warnings_of(f, 16)[0].startswith("'loop.for' op over %k keeps 69 native vectors, more than the 32 registers")
    f = differential(gemm(6, 16, 2, mr=6, nr=16, epilogue=False), [rand(6, 2), rand(2, 16), rand(16)], widths=())
    assert not warnings_of(f, 8)
    assert "15 native vectors, more than the 8 registers" in warnings_of(f, 8, registers=8)[0]


def test_an_accumulator_in_memory_is_named():
    text = """loop.for %k = 0 to 3 {
      %c = loop.load %C[d0] tile (d0 : 16) : vector<16xf32>
      %a = loop.load %A[%k, d0] tile (d0 : 16) : vector<16xf32>
      %n = arith.addf %c, %a : vector<16xf32>
      loop.store %n, %C[d0] tile (d0 : 16) : vector<16xf32>
    }"""
    (warning,) = warnings_of(parse(func("%A: memref<3x16xf32>, %C: memref<16xf32>", text)), 16)
    assert warning.startswith("'loop.for' op over %k accumulates a tile of %C in memory")


def test_a_buffer_that_each_iteration_fills_anew_is_no_accumulator():
    text = """loop.for %k = 0 to 3 {
      loop.for %i = 0 to 2 {
        %a = loop.load %A[%k, d0 + %i * 16] tile (d0 : 16) : vector<16xf32>
        loop.store %a, %C[d0 + %i * 16] tile (d0 : 16) : vector<16xf32>
      }
      %c = loop.load %C[d0] tile (d0 : 16) : vector<16xf32>
      %n = arith.addf %c, %c : vector<16xf32>
      loop.store %n, %C[d0] tile (d0 : 16) : vector<16xf32>
    }"""
    assert not warnings_of(parse(func("%A: memref<3x32xf32>, %C: memref<32xf32>", text)), 16)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            lanes(4, "%z = arith.constant 1.0 : f32 loop.store %z, %Y[%v] : f32", "%Y: memref<4xf32>"),
            "cannot be lowered: convert-loop-to-llvm expects ops of loop, arith and math",
        ),
        (
            func("%X: memref<4x?xf32>, %Y: memref<f32>", "%x = loop.load %X[0, 0] : f32 loop.store %x, %Y[] : f32"),
            "expected a buffer of static inner sizes, but got memref<4x\\?xf32>",
        ),
        (
            func(
                "%X: memref<4xf32>, %Y: memref<4xf32>",
                """%x = loop.load %X[d0] tile (d0 : 4) : vector<4xf32>
                loop.for %i = 0 to 2 parallel { loop.store %x, %Y[d0] tile (d0 : 4) : vector<4xf32> }""",
            ),
            "expected a parallel loop to use no tile from outside",
        ),
    ],
)
def test_what_cannot_be_lowered_is_named(text, message):
    with pytest.raises(UserError, match=message):
        lower_kernel(parse(text), 16)
