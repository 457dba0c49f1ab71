"""Functions between pairs of QuantizeLinear and DequantizeLinear are tables of bytes; each reader widens for itself."""

from typing import Any

import numpy as np
import pytest
from small_graphs import Small
from test_quantized import graph_text, plain_results

import mlc

TARGETS = ["native", "native,-avx512vbmi", "x86-64-v3"]


class Pairs:
    """Nodes with a pair behind each, as quantisers put them."""

    def __init__(self, small: Small, dtype: Any) -> None:
        self.small, self.dtype = small, dtype

    def byte(self, value: int, of: Any = None) -> str:
        """A zero point, counted from the least byte."""
        dtype = of or self.dtype
        return self.small.const(int(np.iinfo(dtype).min) + value, dtype)

    def data(self, *shape: int) -> Any:
        """All bytes, in some order, and what they stand for."""
        small, low = self.small, int(np.iinfo(self.dtype).min)
        name = small.x(*shape, dtype=self.dtype)
        values = np.resize(np.random.default_rng(3).permutation(256), shape) + low
        small.arrays[name] = values.astype(self.dtype)
        return small.op("DequantizeLinear", name, small.const(0.0517, np.float32), self.byte(101))

    def pair(self, x: str, scale: float, zero: int) -> str:
        """Rounded to bytes and back."""
        parameters = self.small.const(scale, np.float32), self.byte(zero)
        return self.small.op("DequantizeLinear", self.small.op("QuantizeLinear", x, *parameters), *parameters)

    def quantised(self, x: str, scale: float, zero: int, dtype: Any = None) -> None:
        """A result in bytes."""
        self.small.out(self.small.op("QuantizeLinear", x, self.small.const(scale, np.float32), self.byte(zero, dtype)))


def functions(small: Small, dtype: Any) -> int:
    """A hard swish and sigmoids, step by step or behind a reshape, and what is too short; how many tables they are."""
    p = Pairs(small, dtype)
    x = p.data(2, 5, 67)
    gate = p.pair(small.op("HardSigmoid", x, alpha=1 / 6, beta=0.5), 1 / 255, 0)
    p.quantised(small.op("Mul", x, gate), 0.0413, 10)
    wide = p.pair(small.op("Sigmoid", x), 1 / 256, 0)
    p.quantised(small.op("Sub", wide, small.const([0.25], np.float32)), 0.00313, 80, np.int8)
    p.quantised(small.op("Exp", small.op("Neg", small.op("Abs", p.data(3)))), 1 / 255, 0)
    flat = small.op("Reshape", p.data(4, 3, 7), small.const([12, 7]))
    p.quantised(small.op("Sigmoid", flat), 1 / 256, 0)
    p.quantised(small.op("Relu", p.data(9, 31)), 0.03, 0)
    return 4


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_functions_of_bytes_are_tables(dtype: Any) -> None:
    small = Small(case="functions")
    count = functions(small, dtype)
    text = graph_text(mlc.load(small.proto()))
    assert text.count('graph.param "lookup.') == count
    wanted = plain_results(small.proto(), small.arrays)
    for target in TARGETS if dtype is np.uint8 else TARGETS[:1]:
        exe = mlc.compile(mlc.load(small.proto()), threads=1, target=target, cache=False)
        for a, b in zip(exe(small.arrays).values(), wanted, strict=True):
            off = np.abs(a.astype(int) - b.astype(int))
            assert off.max() <= 1, target
            assert (off > 0).mean() <= 0.01, target


def test_every_pass_keeps_functions_of_bytes() -> None:
    small = Small(case="functions")
    functions(small, np.uint8)
    wanted = plain_results(small.proto(), small.arrays)
    exe = mlc.compile(mlc.load(small.proto()), threads=1, validate_each=True)
    for a, b in zip(exe(small.arrays).values(), wanted, strict=True):
        assert np.abs(a.astype(int) - b.astype(int)).max() <= 1


def gated(small: Small) -> None:
    """A picture times a gate that is computed of its mean: two readers of what was dequantised."""
    p = Pairs(small, np.uint8)
    x = p.data(1, 16, 6, 12)
    wide = p.pair(small.op("Mul", x, p.pair(small.op("Sigmoid", x), 1 / 256, 0)), 0.0413, 12)
    mean = p.pair(small.op("GlobalAveragePool", wide), 0.03, 7)
    p.quantised(small.op("Mul", wide, p.pair(small.op("Sigmoid", mean), 1 / 256, 0)), 0.0211, 20)


def test_means_and_pools_sum_bytes() -> None:
    small = Small(case="pools")
    p = Pairs(small, np.uint8)
    p.quantised(small.op("GlobalAveragePool", p.data(1, 24, 7, 9)), 0.0413, 30)
    p.quantised(small.op("AveragePool", p.data(2, 16, 8, 9), kernel_shape=[3, 2], strides=[2, 1]), 0.0513, 90)
    p.quantised(small.op("AveragePool", p.data(1, 8, 5, 5), kernel_shape=[3, 3], pads=[1, 1, 1, 1]), 0.0513, 90)
    p.quantised(small.op("ReduceMean", p.data(3, 50), small.const([1]), keepdims=0), 0.0413, 30)
    wanted = plain_results(small.proto(), small.arrays)
    for kwargs in ({}, {"validate_each": True}):
        exe = mlc.compile(mlc.load(small.proto()), threads=1, **kwargs)
        for a, b in zip(exe(small.arrays).values(), wanted, strict=True):
            off = np.abs(a.astype(int) - b.astype(int))
            assert off.max() <= 1
            assert (off > 0).mean() <= 0.01


def test_readers_of_what_is_dequantised_read_bytes() -> None:
    small = Small(case="gated")
    gated(small)
    kernels = [line for line in graph_text(mlc.load(small.proto())).splitlines() if "func.func private" in line]
    assert [line for line in kernels if "1x16x6x12xf32" in line] == []
    (wanted,) = plain_results(small.proto(), small.arrays)
    (found,) = mlc.compile(mlc.load(small.proto()), threads=1, cache=False)(small.arrays).values()
    off = np.abs(found.astype(int) - wanted.astype(int))
    assert off.max() <= 1
    assert (off > 0).mean() <= 0.01
