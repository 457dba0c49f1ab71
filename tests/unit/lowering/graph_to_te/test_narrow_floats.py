"""Kernels written as loops by hand compute in the narrow floats as they do in the wide ones."""

import ml_dtypes
import numpy as np
import pytest

import mlc
from mlc.dialects.syntax.source import parse_module
from mlc.frontends.common.model import Model
from mlc.support.weights import WeightStore


@pytest.mark.parametrize(("dtype", "numpy"), [("bf16", ml_dtypes.bfloat16), ("f16", np.float16), ("f64", np.float64)])
@pytest.mark.parametrize("combine", ["add", "mul"])
def test_running_sums_and_products(dtype: str, numpy: type, combine: str):
    type_ = f"tensor<5x7x{dtype}>"
    text = f"""
func.func @main(%x: {type_} {{graph.name = "x"}}) -> ({type_} {{graph.name = "y"}}) {{
  %0 = graph.cumulative %x {{combine = "{combine}", axis = 1}} : {type_}
  func.return %0 : {type_}
}}"""
    x = np.random.default_rng(0).uniform(0.5, 1.5, (5, 7)).astype(numpy)
    got = mlc.compile(Model(parse_module(text), WeightStore()), threads=1, cache=False)({"x": x})["y"]
    wanted = {"add": np.cumsum, "mul": np.cumprod}[combine](x.astype(np.float64), axis=1)
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=8 * float(ml_dtypes.finfo(numpy).eps))
