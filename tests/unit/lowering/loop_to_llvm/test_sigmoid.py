"""`1 / (exp(-x) + 1)` is one function; where its exponential is used again, or a number is another one, it is not."""

import numpy as np
import pytest
from loop_native import close, native_kernel, parse


def kernel(body: str) -> str:
    return f"""
loop.func @k(%x: memref<37xf32>, %y: memref<37xf32>) attributes {{outputs = 1 : i64}} {{
  %0 = arith.constant 1.0 : f32
  %1 = arith.constant 2.0 : f32
  %one = loop.broadcast %0 : f32 to vector<37xf32>
  %two = loop.broadcast %1 : f32 to vector<37xf32>
  %v = loop.load %x[d0] tile (d0 : 37) : vector<37xf32>
  %n = arith.negf %v : vector<37xf32>
  %e = math.exp %n : vector<37xf32>
  {body}
  loop.store %r, %y[d0] tile (d0 : 37) : vector<37xf32>
}}"""


SIGMOID = """
  %s = arith.addf %e, %one : vector<37xf32>
  %r = arith.divf %one, %s : vector<37xf32>"""
X = np.array(
    [-110, -104, -95, -88.5, -20, -1, -1e-20, -0.0, 0, 0.3, 16.7, 17.4, 43, 90, -np.inf, np.inf, np.nan] + [5] * 20, "f"
)


@pytest.mark.parametrize("bits", [128, 256, 512])
def test_one_function_of_all_numbers(bits: int) -> None:
    run = native_kernel(parse(kernel(SIGMOID)), bits)
    assert "@mlc.sigmoid." in run.ir
    with np.errstate(over="ignore"):
        expected = (1 / (1 + np.exp(-X.astype(np.float64)))).astype(np.float32)
    (found,) = run([X])
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_array_max_ulp(found[~np.isnan(X)], expected[~np.isnan(X)], maxulp=3)


@pytest.mark.parametrize(
    ("body", "function"),
    [
        (SIGMOID.replace("%e, %one", "%one, %e"), lambda x: 1 / (1 + np.exp(-x))),
        (SIGMOID.replace("divf %one", "divf %two"), lambda x: 2 / (1 + np.exp(-x))),
        (SIGMOID.replace("%e, %one", "%e, %two"), lambda x: 1 / (2 + np.exp(-x))),
        (
            SIGMOID.replace("%r =", "%q =") + "%r = arith.addf %q, %e : vector<37xf32>",
            lambda x: 1 / (1 + np.exp(-x)) + np.exp(-x),
        ),
    ],
)
def test_similar_sums(body: str, function: object) -> None:
    x = np.linspace(-8, 8, 37, dtype=np.float32)
    run = native_kernel(parse(kernel(body)))
    assert ("@mlc.sigmoid." in run.ir) == ("%one, %e" in body)
    close(run([x])[0], np.asarray(function(x)), 1e-5)
