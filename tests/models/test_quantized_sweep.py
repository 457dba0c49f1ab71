"""Integer ops of many shapes in one model: groups, strides, dilations, padding, zero points, scales a channel."""

from typing import Any

import numpy as np
import pytest
from onnx_graphs import LARGEST_BYTE
from small_graphs import Small
from test_quantized import plain_results

import mlc

SEEDS = range(6)


class Drawn:
    """Random ops: each has an input of bytes, weights of bytes, and one output."""

    def __init__(self, seed: int) -> None:
        self.small, self.rng = Small(case=f"sweep{seed}"), np.random.default_rng(seed)

    def size(self, low: int, high: int) -> int:
        """A number from low to high."""
        return int(self.rng.integers(low, high + 1))

    def bytes(self, dtype: Any, *shape: int) -> Any:
        """All bytes alike."""
        limits = np.iinfo(dtype)
        return self.rng.integers(limits.min, limits.max + 1, shape).astype(dtype)

    def weights(self, *shape: int) -> Any:
        """Weights of bytes, all alike, that onnxruntime sums exactly on this CPU."""
        return self.rng.integers(-LARGEST_BYTE - 1, LARGEST_BYTE + 1, shape).astype(np.int8)

    def data(self, *shape: int) -> str:
        """An input."""
        name = self.small.x(*shape, dtype=np.uint8)
        self.small.arrays[name] = self.bytes(np.uint8, *shape)
        return name

    def convolution(self, integers: bool) -> None:
        """ConvInteger, or QLinearConv with a scale a channel and a bias."""
        small, groups = self.small, int(self.rng.choice([1, 1, 2, 16]))
        inputs, outputs = (1, 1) if groups == 16 else (self.size(1, 20), self.size(1, 30))
        kernel, dilations = [self.size(1, 4), self.size(1, 4)], [self.size(1, 2), 1]
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
        pads = [self.size(0, r // 2) for r in (*reach, *reach)]
        attrs = {"strides": [self.size(1, 2), self.size(1, 2)], "dilations": dilations, "pads": pads, "group": groups}
        x = self.data(self.size(1, 2), groups * inputs, reach[0] + self.size(0, 9), reach[1] + self.size(0, 17))
        w = small.const(self.weights(groups * outputs, inputs, *kernel), np.int8)
        zero = small.const(self.size(0, 255), np.uint8)
        if integers:
            small.out(
                small.op("ConvInteger", x, w, zero, small.const(int(self.rng.choice([0, 0, -7])), np.int8), **attrs)
            )
            return
        scales = small.const(self.rng.uniform(0.001, 0.02, groups * outputs), np.float32)
        zeros = small.const(np.zeros(groups * outputs), np.int8)
        out = self.requantised(inputs * kernel[0] * kernel[1])
        bias = small.const(self.rng.integers(-5000, 5000, groups * outputs), np.int32)
        small.out(
            small.op("QLinearConv", x, small.const(0.013, np.float32), zero, w, scales, zeros, *out, bias, **attrs)
        )

    def product(self, integers: bool) -> None:
        """MatMulInteger, or QLinearMatMul with zero points a column."""
        small, depth, columns = self.small, self.size(1, 130), self.size(1, 70)
        x, w = self.data(self.size(1, 3), self.size(1, 30), depth), self.weights(depth, columns)
        weights, zero = small.const(w, np.int8), small.const(self.size(0, 255), np.uint8)
        zeros = small.const(self.bytes(np.int8, columns), np.int8)
        if integers:
            small.out(small.op("MatMulInteger", x, weights, zero, zeros))
            return
        scales = small.const(self.rng.uniform(0.001, 0.02, columns), np.float32)
        out = self.requantised(depth)
        small.out(small.op("QLinearMatMul", x, small.const(0.013, np.float32), zero, weights, scales, zeros, *out))

    def requantised(self, depth: int) -> tuple[str, str]:
        """A scale under which sums of so many products use most bytes, and a zero point."""
        scale = 0.0137 * np.sqrt(depth)
        return self.small.const(scale, np.float32), self.small.const(self.size(0, 255), np.uint8)


def drawn(seed: int) -> Small:
    """One op of each kind."""
    one = Drawn(seed)
    for integers in (True, False):
        one.convolution(integers)
        one.product(integers)
    return one.small


@pytest.mark.parametrize("seed", SEEDS)
def test_integer_ops_of_many_shapes(seed: int) -> None:
    small = drawn(seed)
    wanted = plain_results(small.proto(), small.arrays)
    target = ["native", "native,-avx512vnni", "x86-64-v3"][seed % 3]
    exe = mlc.compile(mlc.load(small.proto()), threads=1 + seed % 2, target=target, cache=False)
    for found, want in zip(exe(small.arrays).values(), wanted, strict=True):
        assert found.dtype == want.dtype
        off = np.abs(found.astype(np.int64) - want.astype(np.int64))
        if found.dtype == np.int32:
            assert off.max() == 0
        else:
            assert off.max() <= 1
            assert (off > 0).mean() <= 0.01
            assert len(np.unique(want)) > 2  # not all of them saturated
