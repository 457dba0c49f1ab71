"""The math prelude against float64: dense over all of float32, and the special values, at each width."""

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import builtin

from mlc.codegen.llvm import prelude
from mlc.codegen.llvm.prelude.exponential import EXP as EXP_COEFFICIENTS
from mlc.codegen.llvm.prelude.text import COPIES
from mlc.codegen.native import Library, emit_object
from mlc.targets.target import Target

LANES = (0, 1, 4, 8, 16)
TYPES = {"f32": ("float", np.float32), "f64": ("double", np.float64), "f16": ("half", np.float16)}
SPECIAL = np.float32(
    [
        *[0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-40, 2**-126, 1, -1, 2, -2, 3, -3, 0.5, -0.5, 1.5, -1.5],
        *[
            88.72,
            88.73,
            -87.4,
            -103.9,
            -104.1,
            0.625,
            0.9277,
            9.0,
            -9.1,
            3.4e38,
            -3.4e38,
            16777216,
            16777215,
            8388607.5,
        ],
    ]
)
LIBRARIES: list[Library] = []


def compiled(function: str, element: str, lanes: int, target: str = "native", copy: int = 0) -> Callable[..., Any]:
    """A function of numpy arrays that runs the prelude's `lanes` at a time."""
    scalar, dtype = TYPES[element]
    arity = prelude.FUNCTIONS[function][0]
    key = prelude.Key(function, element, lanes, copy)
    texts, declarations = prelude.definitions([key], Target.parse(target))
    type_ = f"<{lanes} x {scalar}>" if lanes else scalar
    loads = "".join(
        f"  %q{k} = getelementptr {scalar}, ptr %p{k}, i64 %i\n  %v{k} = load {type_}, ptr %q{k}, align 2\n"
        for k in range(arity)
    )
    kernel = f"""
define void @kernel({", ".join(f"ptr %p{k}" for k in range(arity))}, ptr %out, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
{loads}  %r = call {type_} @{prelude.symbol_of(key)}({", ".join(f"{type_} %v{k}" for k in range(arity))})
  %q = getelementptr {scalar}, ptr %out, i64 %i
  store {type_} %r, ptr %q, align 2
  %next = add i64 %i, {lanes or 1}
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}}
attributes #0 = {{ nounwind }}
"""
    library = Library.load([emit_object("\n".join([*texts, *declarations.values(), kernel]), target)])
    LIBRARIES.append(library)
    native = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (arity + 1), ctypes.c_int64)(library.address("kernel"))

    def run(*arrays: np.ndarray) -> np.ndarray:
        count = len(arrays[0])
        padded = [np.resize(np.asarray(a, dtype), -(-count // 16) * 16) for a in arrays]
        out = np.empty_like(padded[0])
        native(*(a.ctypes.data for a in padded), out.ctypes.data, len(out))
        return out[:count]

    return run


def dense() -> np.ndarray:
    """Floats of all magnitudes, evenly in their bits, and more where the functions are steep."""
    bits = np.arange(0, 2**32, 65521, dtype=np.uint64).astype(np.uint32).view(np.float32)
    steep = np.random.default_rng(0).uniform(-110, 110, 100_000).astype(np.float32)
    near = np.random.default_rng(1).uniform(-2, 2, 50_000).astype(np.float32)
    return np.concatenate([SPECIAL, bits, steep, near])


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Distance in units of the result's last place; infinite where a special value is not the same."""
    rounded = want.astype(np.float32)
    unit = np.spacing(np.minimum(np.abs(rounded), np.float32(3.4e38))).astype(np.float64)
    finite = np.isfinite(rounded) & np.isfinite(got)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    distance = np.abs(got.astype(np.float64) - want) / unit
    return np.where(finite, distance, np.where(same, 0, np.inf))


def sigmoid(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1.0) / (1 + e)


ERF = np.vectorize(math.erf, otypes=[np.float64])
BOUNDS: dict[str, tuple[Callable[..., Any], float]] = {
    "exp": (np.exp, 1.0),
    "log": (np.log, 1.0),
    "tanh": (np.tanh, 3.5),
    "sigmoid": (sigmoid, 2.5),
    "erf": (ERF, 2.5),
    "sinh": (np.sinh, 3.0),
    "cosh": (np.cosh, 2.0),
    "asin": (np.arcsin, 2.5),
    "acos": (np.arccos, 2.5),
    "atan": (np.arctan, 3.0),
}


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with np.errstate(all="ignore"):
        yield


@pytest.fixture(scope="module")
def grid() -> np.ndarray:
    return dense()


@pytest.fixture(scope="module")
def expected(grid: np.ndarray) -> dict[str, np.ndarray]:
    with np.errstate(all="ignore"):
        return {name: reference(grid.astype(np.float64)) for name, (reference, _) in BOUNDS.items()}


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("function", BOUNDS)
def test_error_bound(function: str, lanes: int, grid: np.ndarray, expected: dict[str, np.ndarray]) -> None:
    error = ulps(compiled(function, "f32", lanes)(grid), expected[function])
    worst = int(error.argmax())
    assert error[worst] <= BOUNDS[function][1], f"{error[worst]} ulp at {grid[worst]}"


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize("function", BOUNDS)
def test_error_bound_on_other_targets(function: str, target: str, grid: Any, expected: Any) -> None:
    error = ulps(compiled(function, "f32", 8, target)(grid), expected[function])
    assert error.max() <= BOUNDS[function][1]


@pytest.mark.parametrize(("lanes", "target"), [*((n, "native") for n in LANES), (8, "x86-64-v2"), (8, "x86-64-v3")])
def test_exp_of_what_is_not_above_40(lanes: int, target: str, grid: np.ndarray) -> None:
    x = grid[~(grid > 40)]
    assert np.isnan(x).any()
    assert np.isneginf(x).any()
    assert ulps(compiled("exp_nonpositive", "f32", lanes, target)(x), np.exp(x.astype(np.float64))).max() <= 1


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(("function", "reference"), [("sin", np.sin), ("cos", np.cos)])
def test_sine_is_within_1e_7(function: str, reference: Any, lanes: int, grid: np.ndarray) -> None:
    x = grid[~(np.abs(grid) > 1e8)]
    got = compiled(function, "f32", lanes)(x)
    want = reference(x.astype(np.float64))
    assert np.array_equal(np.isnan(got), np.isnan(want))
    assert np.nanmax(np.abs(got - want)) <= 1e-7


@pytest.mark.parametrize(("lanes", "target"), [*((n, "native") for n in LANES), (8, "x86-64-v2"), (8, "x86-64-v3")])
def test_tangent(lanes: int, target: str, grid: np.ndarray) -> None:
    x = grid[~(np.abs(grid) > (1e6 if target == "x86-64-v2" else 1e8))]
    error = ulps(compiled("tan", "f32", lanes, target)(x), np.tan(x.astype(np.float64)))
    assert error.max() <= 3.5, f"{error.max()} ulp at {x[error.argmax()]}"


def pow_grid() -> tuple[np.ndarray, np.ndarray]:
    x, y = (a.ravel() for a in np.meshgrid(SPECIAL, SPECIAL))
    random = np.random.default_rng(2)
    more = [(0, 30, -20, 20), (0.9, 1.1, -900, 900), (1e-40, 1e-37, -1, 1)]
    xs = [x, *(random.uniform(a, b, 50_000) for a, b, _, _ in more), random.integers(-30, 30, 5000)]
    ys = [y, *(random.uniform(c, d, 50_000) for _, _, c, d in more), random.integers(-9, 9, 5000)]
    return np.concatenate(xs).astype(np.float32), np.concatenate(ys).astype(np.float32)


@pytest.mark.parametrize("lanes", LANES)
def test_pow(lanes: int) -> None:
    x, y = pow_grid()
    got, want = compiled("pow", "f32", lanes)(x, y), np.power(x.astype(np.float64), y.astype(np.float64))
    assert ulps(got, want).max() <= 0.51
    zero = (got == 0) & (want.astype(np.float32) == 0)
    assert np.array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


@settings(max_examples=200)
@given(st.lists(st.floats(width=32), min_size=1, max_size=20))
def test_exp_of_anything(values: list[float]) -> None:
    x = np.float32(values)
    with np.errstate(all="ignore"):
        assert ulps(EXP(x), np.exp(x.astype(np.float64))).max() <= 1.0


EXP = compiled("exp", "f32", 16)


@pytest.mark.parametrize("lanes", [0, 4])
@pytest.mark.parametrize("function", [*BOUNDS, "sin", "cos", "tan"])
def test_f64_is_libm(function: str, lanes: int) -> None:
    reference = {"sin": np.sin, "cos": np.cos, "tan": np.tan}.get(function) or BOUNDS[function][0]
    x = np.linspace(-20, 20, 1000)
    np.testing.assert_allclose(compiled(function, "f64", lanes)(x), reference(x), rtol=1e-14, atol=1e-15)


def test_f16_computes_in_f32() -> None:
    x = np.linspace(-8, 8, 500).astype(np.float16)
    got = compiled("tanh", "f16", 8)(x)
    want = np.tanh(x.astype(np.float64)).astype(np.float16)
    np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=1e-3)


def test_only_what_is_called_is_written() -> None:
    texts, _ = prelude.definitions([prelude.Key("exp", "f16", 4)])
    assert [text.split("@")[1].split("(")[0] for text in texts] == ["mlc.exp.v4f16", "mlc.exp.v4f32"]


@pytest.mark.parametrize("target", ["native", "x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize("function", ["tanh", "erf", "sinh", "tan", "asin", "atan"])
def test_zeros_keep_their_sign(function: str, target: str) -> None:
    got = compiled(function, "f32", 8, target)(np.float32([0.0, -0.0, 1e-45, -1e-45]))
    assert np.signbit(got).tolist() == [False, True, False, True]


def test_where_registers_are_few_copies_have_addends_of_their_own_in_memory() -> None:
    vector = builtin.VectorType(builtin.f32, [8])
    zen3, zen4 = Target.parse("znver3"), Target.parse("znver4")
    keys = [prelude.function_for("tanh", vector, zen3, call)[1] for call in range(5)]
    assert [key.copy for key in keys] == [0, 1, 2, 3, 0]
    assert prelude.function_for("tanh", vector, zen4, 3)[1].copy == 0
    texts, declarations = prelude.definitions(keys, zen3)
    addends = [name for name in declarations if name.startswith("@mlc.")]
    assert len(texts) == 4
    assert len(addends) == 4 * len(EXP_COEFFICIENTS)
    assert all(sum(name + "," in text for text in texts) == 1 for name in addends)


@pytest.mark.parametrize("copy", range(COPIES))
def test_copies_compute_the_same(copy: int, grid: np.ndarray) -> None:
    first, other = (compiled("tanh", "f32", 8, "x86-64-v3", n)(grid) for n in (0, copy))
    np.testing.assert_array_equal(first, other)
