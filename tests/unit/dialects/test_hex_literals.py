"""NaN and infinities in `dense<...>` are printed as their bits, which must be read as bits, not as numbers."""

import numpy as np
import pytest

import mlc
from mlc.dialects.syntax.source import parse_module
from mlc.support.errors import UserError


@pytest.mark.parametrize(("element", "bits"), [("f16", 16), ("bf16", 16), ("f32", 32), ("f64", 64)])
def test_round_trip(element: str, bits: int):
    infinity = {"f16": "0x7C00", "bf16": "0x7F80", "f32": "0x7F800000", "f64": "0x7FF0000000000000"}[element]
    text = f"""func.func @main() -> (tensor<2x2x{element}>, tensor<3x{element}>) {{
  %0 = graph.constant dense<[[{infinity}, -1.0], [2, 0x{"0" * (bits // 4)}]]> : tensor<2x2x{element}>
  %1 = graph.constant dense<{infinity}> : tensor<3x{element}>
  func.return %0, %1 : tensor<2x2x{element}>, tensor<3x{element}>
}}"""
    printed = str(parse_module(text))
    assert str(parse_module(printed)) == printed
    for one in (text, printed):
        first, second = (a.astype(np.float64) for a in mlc.interpret(one, []).values())
        np.testing.assert_array_equal(first, [[np.inf, -1], [2, 0]])
        np.testing.assert_array_equal(second, [np.inf] * 3)


def test_nan_and_integers():
    text = """func.func @main() -> (tensor<2xf32>, tensor<2xi32>) {
  %0 = graph.constant dense<[0x7fc00000, 1.0]> : tensor<2xf32>
  %1 = graph.constant dense<[0x10, 3]> : tensor<2xi32>
  func.return %0, %1 : tensor<2xf32>, tensor<2xi32>
}"""
    floats, integers = mlc.interpret(str(parse_module(text)), []).values()
    np.testing.assert_array_equal(floats, [np.nan, 1])
    np.testing.assert_array_equal(integers, [16, 3])


def test_too_many_bits():
    text = """func.func @main() -> tensor<1xf16> {
  %0 = graph.constant dense<[0x7f800000]> : tensor<1xf16>
  func.return %0 : tensor<1xf16>
}"""
    with pytest.raises(UserError, match=r"^<text>:2:30: expected the bits of f16, but got 0x7f800000"):
        parse_module(text)
