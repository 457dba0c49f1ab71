"""C99: every operation computes what the interpreter computes, on scalars and on tiles, for every element type."""

import re
from collections.abc import Iterable

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from mlc.codegen.c import emit as c
from mlc.codegen.c import prelude as c_prelude
from mlc.dialects import loop
from mlc.driver.pipeline.registry import make_context
from mlc.interp import loop as interp
from mlc.interp import values
from mlc.support.errors import UserError
from mlc.validation import c_run

FLOATS = ("f32", "f64", "f16", "bf16")
INTS = ("i8", "i16", "i32", "i64")
N = 24


def parse(text: str) -> ModuleOp:
    module = Parser(make_context(), text).parse_module()
    module.verify()
    return module


def data(element: str, seed: int = 0, positive: bool = False) -> np.ndarray:
    from mlc.dialects.graph.types import ELEMENT_TYPES

    rng = np.random.default_rng(seed)
    dtype = next(values.dtype_of(t) for t in ELEMENT_TYPES.values() if str(t) == element)
    if element == "i1":
        return rng.integers(0, 2, N).astype(bool)
    if element.startswith("i"):
        info = np.iinfo(dtype)
        x = rng.integers(info.min, info.max, N, dtype=dtype, endpoint=True)
        x[:4] = [info.min, info.max, 0, -1]
        return np.abs(x % 7) if positive else x
    x = rng.standard_normal(N) * 3
    x[:6] = [0.0, -0.0, 0.5, 1.5, -2.5, 1.0]
    return (np.abs(x) if positive else x).astype(dtype)


def bits(array: np.ndarray) -> np.ndarray:
    """Equal for equal values; every NaN is one."""
    array = np.where(array != array, np.zeros_like(array) + np.nan, array) if array.dtype.kind in "fV" else array
    return np.ascontiguousarray(array).view(np.uint8)


Case = tuple[str, list[np.ndarray], int]


def same(a: np.ndarray, b: np.ndarray, ulps: int) -> None:
    """The same bits, or so many units in the last place."""
    if ulps == 0 or a.dtype.kind not in "f":
        assert (bits(a) == bits(b)).all(), (a, b)
    else:
        np.testing.assert_array_max_ulp(a, b, ulps)


def agree(*cases: Case) -> list[list[np.ndarray]]:
    """Run every case both ways, compiled as one text, and return the outputs."""
    funcs = [parse(text.replace("@f(", f"@f{k}(")).body.block.first_op for k, (text, _, _) in enumerate(cases)]
    assert all(isinstance(f, loop.FuncOp) for f in funcs)
    kernels = c_run.compile_and_load(c_prelude.PRELUDE + "\n".join(map(c.print_function, funcs)))
    found = []
    for k, (func, (_, arrays, ulps)) in enumerate(zip(funcs, cases, strict=True)):
        args = interp.bind(func, arrays)
        assert kernels[f"f{k}"](args) == 0
        found.append(interp.outputs_of(func, args))
        for a, b in zip(interp.run(func, arrays), found[-1], strict=True):
            same(a, b, ulps)
    return found


def elementwise(op: str, operands: list[str], result: str) -> str:
    """The operation on scalars into %S and on a 3x8 tile into %T."""
    args = ", ".join(f"%x{k}: memref<{N}x{t}>" for k, t in enumerate(operands))
    outs = f"%S: memref<{N}x{result}>, %T: memref<{N}x{result}>"

    def loads(index: str, tile: str, wrap: str) -> str:
        return "\n".join(f"%a{k} = loop.load %x{k}[{index}] {tile} : {wrap.format(t)}" for k, t in enumerate(operands))

    def types(wrap: str) -> dict[str, str]:
        return {f"t{k}": wrap.format(t) for k, t in enumerate(operands)} | {"r": wrap.format(result)}

    tile = "tile (d0 : 3, d1 : 8)"
    return f"""
loop.func @f({args}, {outs}) attributes {{outputs = 2 : i64}} {{
  loop.for %i = 0 to {N} {{
    {loads("%i", "", "{}")}
    %r = {op.format(**types("{}"))}
    loop.store %r, %S[%i] : {result}
  }}
  {loads("d0 * 8 + d1", tile, "vector<3x8x{}>")}
  %q = {op.format(**types("vector<3x8x{}>"))}
  loop.store %q, %T[d0 * 8 + d1] {tile} : vector<3x8x{result}>
}}"""


def case(op: str, operands: list[str], result: str, positive: bool = False, ulps: int = 0) -> Case:
    arrays = [data(t, k, positive) for k, t in enumerate(operands)]
    return elementwise(op, operands, result), arrays, ulps


def check(cases: Iterable[Case]) -> None:
    for scalars, tiles in agree(*cases):
        assert (bits(scalars) == bits(tiles)).all()


def test_the_tables_know_the_same_operations():
    assert c_prelude.BINARY.keys() == values.BINARY.keys()
    assert c_prelude.UNARY.keys() == values.UNARY.keys()
    assert c_prelude.COMPARE.keys() == values.COMPARE.keys() == set(loop.COMPARES)
    assert c_prelude.CAST.keys() | {"bitcast"} == values.CAST.keys() == set(loop.CASTS)
    assert c_prelude.COMBINE.keys() == values.COMBINE.keys()


def takes_floats(name: str) -> bool:
    return name.startswith("math") or name.endswith("f")


SHIFTS = ("arith.shli", "arith.shrsi", "arith.shrui")


@pytest.mark.parametrize("name", sorted(values.BINARY))
def test_binary(name):
    if takes_floats(name):
        positive, ulps = name == "math.powf", 1 if name.startswith("math.") else 0
        check(case(f"{name} %a0, %a1 : {{t0}}", [t, t], t, positive, ulps) for t in FLOATS)
        return
    other = "%a0" if name in SHIFTS else "%a1"
    check(case(f"{name} %a0, {other} : {{t0}}", [t, t], t, positive=name in SHIFTS) for t in INTS)


def test_one_bit():
    check(case(f"arith.{n} %a0, %a1 : {{t0}}", ["i1", "i1"], "i1") for n in ("addi", "muli", "andi", "ori", "xori"))


@pytest.mark.parametrize("name", sorted(values.UNARY))
def test_unary(name):
    types = INTS if name == "math.absi" else FLOATS
    check(case(f"{name} %a0 : {{t0}}", [t], t, positive=name == "math.acosh", ulps=1) for t in types)


def test_compare():
    for types, predicates in ((FLOATS, loop.COMPARES[:7]), (INTS, loop.COMPARES[7:])):
        check(case(f"loop.compare {p} %a0, %a1 : {{t0}}", [t, t], "i1") for t in types for p in predicates)


CASTS = [
    *[("sitofp", a, b) for a in ("i1", *INTS) for b in FLOATS],
    *[("uitofp", a, b) for a in ("i1", *INTS) for b in ("f32", "f64", "f16")],
    *[("fptosi", a, b) for a in FLOATS for b in ("i8", "i32", "i64")],
    *[("fptoui", a, b) for a in FLOATS for b in ("i8", "i32", "i64")],
    *[("extf", a, b) for a, b in (("f16", "f32"), ("bf16", "f32"), ("f32", "f64"), ("f16", "f64"))],
    *[("truncf", a, b) for a, b in (("f32", "f16"), ("f32", "bf16"), ("f64", "f32"))],
    *[(k, a, b) for k in ("extsi", "extui") for a, b in (("i1", "i8"), ("i8", "i32"), ("i32", "i64"))],
    *[("trunci", a, b) for a, b in (("i64", "i8"), ("i32", "i16"), ("i8", "i1"))],
    *[("bitcast", a, b) for a, b in (("f32", "i32"), ("i64", "f64"))],
]


def test_cast():
    assert {kind for kind, _, _ in CASTS} == set(loop.CASTS) - {"index_cast"}
    check(case(f"loop.cast {k} %a0 : {{t0}} to {{r}}", [a], b, positive=k == "fptoui") for k, a, b in CASTS)


def test_select_and_fma():
    check(case("loop.select %a0, %a1, %a2 : {t0}, {t1}", ["i1", t, t], t) for t in (*FLOATS, *INTS))
    check(case("loop.fma %a0, %a1, %a2 : {t0}, {t1}, {t2}", [t, t, t], t) for t in (*FLOATS, "i32"))


def reduction(combiner: str, element: str, axes: list[int]) -> Case:
    shape = "x".join(str(1 if k in axes else n) for k, n in enumerate((2, 3, 4)))
    tile = "tile (d0 : 2, d1 : 3, d2 : 4)"
    at = ", ".join("0" if k in axes else f"d{k}" for k in range(3))
    text = f"""
loop.func @f(%x: memref<{N}x{element}>, %y: memref<{shape}x{element}>) attributes {{outputs = 1 : i64}} {{
  %v = loop.load %x[d0 * 12 + d1 * 4 + d2] {tile} : vector<2x3x4x{element}>
  %r = loop.reduce {combiner} %v axes {axes} : vector<2x3x4x{element}> to vector<{shape}x{element}>
  loop.store %r, %y[{at}] {tile} : vector<{shape}x{element}>
}}"""
    return text, [data(element)], 0


@pytest.mark.parametrize("combiner", ["sum", "prod", "max", "min"])
def test_reduce(combiner):
    axes = ([0], [1], [0, 2], [0, 1, 2])
    agree(*(reduction(combiner, element, a) for element in ("f32", "bf16", "i32") for a in axes))


@pytest.mark.parametrize("axis", [0, 1])
def test_concat(axis):
    """Tiles side by side, also as lanes."""
    one, both, sizes = ("1x4", "3x4", (3, 4)) if axis == 0 else ("4x1", "4x3", (4, 3))
    tile = f"tile (d0 : {sizes[0]}, d1 : {sizes[1]})"
    text = f"""
loop.func @f(%x: memref<{N}xf32>, %y: memref<{both}xf32>) attributes {{outputs = 1 : i64}} {{
  %a = loop.load %x[d{1 - axis}] {tile} : vector<{one}xf32>
  %b = loop.load %x[d{1 - axis} * 2 + 3] {tile} : vector<{one}xf32>
  %c = loop.concat %b, %a, %b axis {axis} : vector<{one}xf32> to vector<{both}xf32>
  loop.store %c, %y[d0, d1] {tile} : vector<{both}xf32>
}}"""
    x = data("f32")
    ((y, *_), *_) = agree((text, [x], 0))
    rows = np.stack([x[3:11:2], x[:4], x[3:11:2]])
    assert (y == (rows if axis == 0 else rows.T)).all()


@pytest.mark.parametrize("axis", [0, 1])
def test_slice(axis):
    """One place of an axis, of a value that is read whole, too."""
    one, whole = ("1x3x4", "2x3x4") if axis == 0 else ("2x1x4", "2x3x4")
    text = f"""
loop.func @f(%x: memref<{N}xf32>, %y: memref<{one}xf32>, %z: memref<{whole}xf32>) attributes {{outputs = 2 : i64}} {{
  %a = loop.load %x[d0 * 12 + d1 * 4 + d2] tile (d0 : 2, d1 : 3, d2 : 4) : vector<{whole}xf32>
  %b = arith.addf %a, %a : vector<{whole}xf32>
  %c = loop.slice %b axis {axis} at 1 : vector<{whole}xf32> to vector<{one}xf32>
  %d = arith.addf %c, %c : vector<{one}xf32>
  loop.store %d, %y[d0, d1, d2] tile (d0 : {one[0]}, d1 : {one[2]}, d2 : 4) : vector<{one}xf32>
  loop.store %b, %z[d0, d1, d2] tile (d0 : 2, d1 : 3, d2 : 4) : vector<{whole}xf32>
}}"""
    x = data("f32")
    ((y, z, *_), *_) = agree((text, [x], 0))
    a = x[:24].reshape(2, 3, 4)
    assert (y == 4 * a.take([1], axis)).all()
    assert (z == 2 * a).all()


def test_structure():
    """Loops of every kind, a block with init and predicate, heap and stack buffers, carried values that swap."""
    rng = np.random.default_rng(1)
    a = rng.standard_normal((9, 40), dtype=np.float32)
    (y, z), *_ = agree(
        (
            """
loop.func @f(%A: memref<9x40xf32>, %Y: memref<9xf32>, %Z: memref<2x8xf32>) attributes {outputs = 2 : i64} {
  %big = loop.alloc "shared" : memref<40x40xf32>
  %one = arith.constant 1.0 : f32
  loop.for %i = 0 to 40 vectorized {
    loop.for %j = %i to 40 unrolled {
      loop.store %one, %big[%i, %j] : f32
    }
  }
  loop.for %io = 0 to 2 parallel {
    %t = loop.alloc "local" : memref<5xf32>
    loop.for %ii = 0 to 5 {
      loop.for %k = 0 to 40 {
        loop.block "row" (%vi : 9 = %io * 5 + %ii) reduce (%vk : 40 = %k) where (8 - %io * 5 - %ii) init {
        ^bb0(%vi : index, %vk : index):
          %zero = arith.constant 0.0 : f32
          loop.store %zero, %t[%vi mod 5] : f32
        } {
          %x = loop.load %A[%vi, %vk] : f32
          %o = loop.load %big[0, %vk] : f32
          %s = loop.load %t[%vi mod 5] : f32
          %n = loop.fma %x, %o, %s : f32, f32, f32
          loop.store %n, %t[%vi mod 5] : f32
        }
      }
    }
    loop.for %ii = 0 to 5 {
      loop.block "out" (%vi : 9 = %io * 5 + %ii) where (8 - %io * 5 - %ii) {
        %x = loop.load %t[%vi mod 5] : f32
        loop.store %x, %Y[%vi] : f32
      }
    }
  }
  %p = loop.load %A[0, d0] tile (d0 : 8) : vector<8xf32>
  %q = loop.load %A[1, d0 * 2 + 1] tile (d0 : 8) : vector<8xf32>
  %u, %v = loop.for %k = 0 to 3 iter_args(%a = %p, %b = %q) -> vector<8xf32>, vector<8xf32> {
    loop.yield %b, %a : vector<8xf32>, vector<8xf32>
  }
  loop.store %u, %Z[0, d0] tile (d0 : 8) : vector<8xf32>
  loop.store %v, %Z[1, d0] tile (d0 : 8) : vector<8xf32>
}""",
            [a],
            0,
        ),
    )
    np.testing.assert_allclose(y, a.sum(axis=1), rtol=1e-4, atol=1e-5)
    assert (z[0] == a[1, 1:16:2]).all()
    assert (z[1] == a[0, :8]).all()


def test_masks_gather_and_index_arithmetic():
    a = np.arange(10, dtype=np.float32)
    table = np.array([4, 0, 9, 2], np.int64)
    (y, z), *_ = agree(
        (
            """
loop.func @f(%A: memref<10xf32>, %T: memref<4xi64>, %Y: memref<12xf32>, %Z: memref<3x4xf32>)
    attributes {outputs = 2 : i64} {
  %s = arith.constant 7.0 : f32
  %fill = loop.broadcast %s : f32 to vector<8xf32>
  loop.for %i = 0 to 2 {
    %v = loop.load %A[%i * 8 + d0 - 1] mask (%i * 8 + d0 - 1, 10 - d0 - %i * 8) else %fill tile (d0 : 8) : vector<8xf32>
    loop.store %v, %Y[%i * 8 + d0] mask (11 - %i * 8 - d0) tile (d0 : 8) : vector<8xf32>
  }
  %t = loop.load %T[d1] tile (d0 : 3, d1 : 4) : vector<1x4xi64>
  %x = loop.cast index_cast %t : vector<1x4xi64> to vector<1x4xindex>
  %g = loop.gather %A[(d0 * -1) floordiv 4 + (d0 + 3) floordiv 4] by %x at 0 tile (d0 : 3, d1 : 4) : vector<3x4xf32>
  loop.store %g, %Z[d0, d1] mask (1 - d0) tile (d0 : 3, d1 : 4) : vector<3x4xf32>
  loop.for %i = 0 to 4 {
    %e = loop.load %A[%i * 5 - 3] mask (%i * 5 - 3, 12 - %i * 5) else %s : f32
    loop.store %e, %Z[2, (%i - 9) mod 4] mask (2 - %i) : f32
  }
}""",
            [a, table],
            0,
        ),
    )
    assert y.tolist() == [7, *range(10), 7]
    assert (z[:2] == a[table]).all()
    assert np.isnan(z[2]).sum() == 1


TILES_IN_ONE_LOOP = """
loop.func @f(%A: memref<8xf32>, %Y: memref<8xf32>, %Z: memref<2x8xf32>, %R: memref<8xf32>)
    attributes {outputs = 3 : i64} {
  %b = loop.alloc "local" : memref<9xf32>
  %x = loop.load %A[d0] tile (d0 : 8) : vector<8xf32>
  loop.store %x, %b[d0] tile (d0 : 8) : vector<8xf32>
  %back = loop.load %b[7 - d0] tile (d0 : 8) : vector<8xf32>
  %twice = arith.addf %back, %back : vector<8xf32>
  loop.store %twice, %b[d0] tile (d0 : 8) : vector<8xf32>
  loop.store %x, %b[d0 + 1] tile (d0 : 8) : vector<8xf32>
  %y = loop.load %b[d0] tile (d0 : 8) : vector<8xf32>
  loop.store %y, %Y[d0] tile (d0 : 8) : vector<8xf32>
  %first = loop.load %b[0] : f32
  %w = loop.broadcast %first : f32 to vector<8xf32>
  loop.store %w, %Z[0, d0] tile (d0 : 8) : vector<8xf32>
  %most = loop.reduce max %x axes [0] : vector<8xf32> to vector<1xf32>
  %share = loop.broadcast %most : vector<1xf32> to vector<8xf32>
  %r = arith.subf %x, %share : vector<8xf32>
  loop.store %r, %Z[1, d0] tile (d0 : 8) : vector<8xf32>
  %kept = loop.for %i = 0 to 3 iter_args(%a = %r) -> vector<8xf32> {
    %next = arith.addf %a, %x : vector<8xf32>
    %square = arith.mulf %next, %next : vector<8xf32>
    loop.yield %square : vector<8xf32>
  }
  loop.store %kept, %R[d0] tile (d0 : 8) : vector<8xf32>
}"""


def test_tiles_in_one_loop():
    """Operations on tiles share loops where no lane reads, or overwrites, what another lane of the loop writes."""
    a = np.arange(1, 9, dtype=np.float32)
    (y, z, _), *_ = agree((TILES_IN_ONE_LOOP, [a], 0))
    assert y.tolist() == [16, *range(1, 8)]
    assert z.tolist() == [[16] * 8, (a - 8).tolist()]


def test_a_value_of_one_loop_is_a_scalar():
    text = c.print_function(parse(TILES_IN_ONE_LOOP).body.block.first_op)
    assert re.search(r"^ +float next_\d+;$", text, re.M), "read in the loop that computes it only"
    assert re.search(r"^ +float square_\d+\[8\];$", text, re.M), "carried"
    (body,) = re.findall(r"float next_.*?\}", text, re.S)
    assert "square_" in body, "the neighbours share a loop"


def test_divisions_are_shared_by_the_accesses_of_a_scope():
    """A predicate of a block, masks, and accesses that divide by the same number, one of them inside a division."""
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    (y,), *_ = agree(
        (
            """
loop.func @f(%A: memref<3x4xf32>, %Y: memref<3x4xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 16 {
    loop.block "copy" (%v : 16 = %i) where (2 - %i floordiv 4) {
      %x = loop.load %A[%v floordiv 4, %v mod 4] : f32
      %s = arith.addf %x, %x : f32
      %n = loop.index %v floordiv 4 * 4 : index
      %z = loop.load %A[%n floordiv 4, (%v mod 4) floordiv 2] : f32
      %t = arith.addf %s, %z : f32
      loop.store %t, %Y[%v floordiv 4, %v mod 4] mask (1 - (%v floordiv 4) floordiv 2) : f32
    }
  }
}""",
            [a],
            0,
        ),
    )
    assert y.tolist() == (2 * a + a[:, [0, 0, 1, 1]]).tolist()


def test_constants_are_exact():
    (y, _), *_ = agree(
        (
            """
loop.func @f(%Y: memref<4xf32>, %I: memref<3xi64>) attributes {outputs = 2 : i64} {
  %v = arith.constant dense<[0.1, -1.0e-40, 3.4e38]> : vector<3xf32>
  loop.store %v, %Y[d0] tile (d0 : 3) : vector<3xf32>
  %s = arith.constant 0x7F800000 : f32
  loop.store %s, %Y[3] : f32
  %i = arith.constant dense<[-9223372036854775808, 9223372036854775807, -1]> : vector<3xi64>
  loop.store %i, %I[d0] tile (d0 : 3) : vector<3xi64>
}""",
            [],
            0,
        ),
    )
    assert y.tolist() == np.array([0.1, -1e-40, 3.4e38, np.inf], np.float32).tolist()


@pytest.mark.parametrize(
    ("access", "is_wrong"),
    [
        ("%Y[%i]", True),
        ("%Y[%i * -1 + 3]", True),
        ("%Y[%i] mask (3 - %i)", False),
        ("%Y[d0 + 1] tile (d0 : 4)", True),
        ("%Y[2 - d0] tile (d0 : 4)", True),
        ("%Y[3 - d0] tile (d0 : 4)", False),
        ("%Y[d0 + %i - 1] mask (d0 + %i - 1, 4 - d0 - %i) tile (d0 : 4)", False),
        ("%Y[(d0 + 2) floordiv 2 * 2] tile (d0 : 4)", True),
    ],
)
def test_out_of_bounds_is_an_error_and_no_crash(access: str, is_wrong: bool):
    tile = "tile" in access
    text = f"""
loop.func @f(%A: memref<4xf32>, %Y: memref<4xf32>) attributes {{outputs = 1 : i64}} {{
  loop.for %i = 0 to 5 {{
    %v = loop.load %A[{"d0] tile (d0 : 4)" if tile else "3]"} : {"vector<4xf32>" if tile else "f32"}
    loop.store %v, {access} : {"vector<4xf32>" if tile else "f32"}
  }}
}}"""
    module = Parser(make_context(), text).parse_module()  # the verifier finds most of these
    func = module.body.block.first_op
    if not is_wrong:
        c_run.run(func, [np.zeros(4, np.float32)])
        return
    with pytest.raises(interp.InterpreterError, match=r"'loop.store' goes out of bounds in @f") as error:
        c_run.run(func, [np.zeros(4, np.float32)])
    assert isinstance(error.value.op, loop.StoreOp)


def test_a_module_compiles_as_one_text():
    module = parse("""
builtin.module {
  loop.func @one(%Y: memref<1xi32>) attributes {outputs = 1 : i64} {
    %c = arith.constant 1 : i32
    loop.store %c, %Y[0] : i32
  }
  loop.func @sum(%A: memref<?xi32>, %Y: memref<1xi32>, %n: index) attributes {outputs = 1 : i64} {
    %z = arith.constant 0 : i32
    %r = loop.for %i = 0 to %n iter_args(%a = %z) -> i32 {
      %v = loop.load %A[%i] : i32
      %b = arith.addi %a, %v : i32
      loop.yield %b : i32
    }
    loop.store %r, %Y[0] : i32
  }
}""")
    kernels = c_run.compile_and_load(c.print_module(module))
    out = np.zeros(1, np.int32)
    assert kernels["one"]([out]) == 0
    assert out[0] == 1
    assert kernels["sum"]([np.arange(5, dtype=np.int32), out, 5]) == 0
    assert out[0] == 10


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('"test.op"() : () -> ()', "'test.op', which has no C99 form"),
        (
            "%v = loop.load %Y[0] : f16\n%w = loop.cast bitcast %v : f16 to i16",
            "expected a bitcast of 32 or 64 bits or between integers, but got f16 to i16",
        ),
    ],
)
def test_what_c_cannot_say_is_refused(body, message):
    ctx = make_context()
    ctx.allow_unregistered = True
    text = f"loop.func @f(%Y: memref<1xf16>) attributes {{outputs = 1 : i64}} {{\n{body}\n}}"
    with pytest.raises(UserError) as error:
        c.print_module(Parser(ctx, text).parse_module())
    assert message in str(error.value)
