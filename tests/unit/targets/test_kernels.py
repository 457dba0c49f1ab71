"""Kernels of every kind for machines by their description: what they compute here, and the registers they use."""

from typing import Any

import pytest
import small_graphs
from small_graphs import Small

import mlc
from mlc.driver.models.compilation import Compilation
from mlc.driver.options import Options
from mlc.frontends.onnx.importer import import_model
from mlc.targets.target import Target, native_target


def dense(s: Small) -> None:
    s.out(s.op("Relu", s.op("Gemm", s.x(5, 70), s.w(70, 37), s.w(37))))


def row(s: Small) -> None:
    s.out(s.op("MatMul", s.x(1, 130), s.w(130, 67)))


def products(s: Small) -> None:
    s.out(s.op("MatMul", s.x(3, 13, 29), s.x(3, 29, 19)))


def conv(s: Small) -> None:
    y = s.op("Conv", s.x(1, 3, 23, 29), s.w(19, 3, 7, 7), s.w(19), strides=[2, 2], pads=[3, 3, 3, 3])
    s.out(s.op("Relu", s.op("Conv", y, s.w(35, 19, 1, 1))))


def dilated(s: Small) -> None:
    s.out(s.op("Conv", s.x(2, 24, 13, 17), s.w(48, 24, 3, 3), dilations=[2, 2], pads=[2, 2, 2, 2]))


def depthwise(s: Small) -> None:
    x = s.op("Conv", s.x(1, 21, 19, 17), s.w(21, 1, 3, 3), s.w(21), group=21, strides=[2, 1], pads=[1, 1, 1, 1])
    s.out(s.op("Clip", x, s.const(0.0, "float32"), s.const(6.0, "float32")))


def winograd(s: Small) -> None:
    s.out(s.op("Conv", s.x(1, 64, 24, 20), s.w(64, 64, 3, 3), s.w(64), pads=[1, 1, 1, 1]))


def softmax(s: Small) -> None:
    s.out(s.op("Softmax", s.x(7, 45), axis=-1))


def norm(s: Small) -> None:
    s.out(s.op("LayerNormalization", s.x(5, 51), s.w(51), s.w(51), axis=-1))


def pool(s: Small) -> None:
    s.out(s.op("MaxPool", s.x(1, 20, 17, 15), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]))


def gates(s: Small) -> None:
    s.out(s.op("Mul", s.op("Sigmoid", s.x(3, 41)), s.op("Tanh", s.op("Exp", s.x(3, 41)))))


def mean(s: Small) -> None:
    s.out(s.op("ReduceMean", s.x(4, 33, 9), s.const([1]), keepdims=0))


CASES = (dense, row, products, conv, dilated, depthwise, winograd, softmax, norm, pool, gates, mean)
VALUES = ("x86-64", "x86-64-v3", "x86-64-v4")
# Registers that a target has, and some that it has not.
REGISTERS = {
    "x86-64": ("xmm", "ymm"),
    "haswell": ("ymm", "zmm"),
    "znver5,-avx512f": ("ymm", "zmm"),
    "skylake-avx512": ("zmm", "v31.4s"),
    "aarch64": (".4s", "xmm"),
}


def runs(target: str) -> bool:
    """Whether this machine has the registers that the target's code uses."""
    here, there = native_target(), Target.parse(target)
    return there.architecture == here.architecture and there.vector_bits <= here.vector_bits and here.fma >= there.fma


@pytest.fixture(scope="module")
def model() -> tuple[Small, list[Any]]:
    small = small_graphs.small_model((case.__name__, case) for case in CASES)
    return small, small_graphs.onnxruntime_results(small)


@pytest.mark.parametrize("target", VALUES)
def test_values(model: tuple[Small, list[Any]], target: str) -> None:
    if not runs(target):
        pytest.skip(f"this machine cannot run code for {target}")
    small, wanted = model
    exe = mlc.compile(small.proto(), target=target, threads=2, cache=False)
    assert small_graphs.mismatches(small, exe, wanted, 1e-4) == []
    names = " ".join(kernel.kernel for kernel in exe.profile(small.arrays))
    assert all(word in names for word in ("winograd", "softmax"))


@pytest.mark.parametrize("target", REGISTERS)
def test_registers(target: str) -> None:
    small = small_graphs.small_model((case.__name__, case) for case in (dense, row, conv, depthwise, softmax))
    compilation = Compilation(import_model(small.proto()), Options(target, threads=1, keep=frozenset({"asm"})))
    kernels = compilation.compile_kernels(compilation.plan()[1])
    text = "".join(code.texts["asm"] for code in kernels.values())
    has, has_not = REGISTERS[target]
    assert has in text
    assert has_not not in text
