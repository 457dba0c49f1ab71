"""Single kernels: matrix products from `mlc.te`, convolutions from the graph level as a model's would be lowered."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

import mlc
from mlc.dialects import te
from mlc.driver.flops import flops_of
from mlc.driver.model import parse_module
from mlc.driver.options import Options
from mlc.driver.weights import WeightStore
from mlc.passes.graph.weights import attach_store
from mlc.passes.manager import make_context, run_passes


@dataclass(frozen=True)
class Conv:
    """A convolution of one picture with bias and relu."""

    channels: int
    height: int
    width: int
    outputs: int
    kernel: int = 3
    stride: int = 1
    dilation: int = 1
    groups: int = 1

    def __str__(self) -> str:
        text = f"{self.channels}x{self.height}x{self.width} -> {self.outputs}, {self.kernel}x{self.kernel}"
        for name in ("stride", "dilation", "groups"):
            if getattr(self, name) != 1:
                text += f", {name} {getattr(self, name)}"
        return text

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the result."""
        pad, reach = self._pad, self.dilation * (self.kernel - 1)
        height, width = ((size + 2 * pad - reach - 1) // self.stride + 1 for size in (self.height, self.width))
        return height, width

    @property
    def _pad(self) -> int:
        return self.dilation * (self.kernel - 1) // 2

    @property
    def gflop(self) -> float:
        """Multiplications and additions of the direct sum, in 10^9."""
        height, width = self.size
        return 2e-9 * height * width * self.outputs * (self.channels // self.groups) * self.kernel**2

    def text(self) -> str:
        """The convolution on the graph level."""
        height, width = self.size
        x = f"tensor<1x{self.channels}x{self.height}x{self.width}xf32>"
        w = f"tensor<{self.outputs}x{self.channels // self.groups}x{self.kernel}x{self.kernel}xf32>"
        b, y = f"tensor<{self.outputs}xf32>", f"tensor<1x{self.outputs}x{height}x{width}xf32>"
        pad = ", ".join([str(self._pad)] * 4)
        return f"""
        func.func @main(%x: {x}) -> {y} {{
          %w = graph.param "w" : {w}
          %b = graph.param "b" : {b}
          %0 = graph.conv2d %x, %w {{strides = [{self.stride}, {self.stride}], padding = [{pad}],
            dilation = [{self.dilation}, {self.dilation}], groups = {self.groups}}} : ({x}, {w}) -> {y}
          %1 = graph.bias_add %0, %b {{axis = 1}} : ({y}, {b}) -> {y}
          %2 = graph.relu %1 : {y}
          return %2 : {y}
        }}"""

    def operator(self, threads: int, winograd: bool = False) -> tuple[Any, list[Any]]:
        """The kernel in the layout that the compiler chooses, without the transforms around it; and its inputs."""
        module, ctx = parse_module(self.text()), make_context()
        rng, store = np.random.default_rng(0), WeightStore()
        shape = (self.outputs, self.channels // self.groups, self.kernel, self.kernel)
        store.add("w", rng.uniform(-0.1, 0.1, shape).astype(np.float32))
        store.add("b", rng.uniform(-1, 1, self.outputs).astype(np.float32))
        attach_store(module, store)
        passes = Options(threads=threads).pipeline("graph")
        run_passes(module, ctx, [one for one in passes if winograd or one.name != "graph-select-algorithm"])
        kernels = [op for op in module.ops if isinstance(op, FuncOp) and "graph.kernel" in op.attributes]
        alone = ModuleOp([max(kernels, key=flops_of).clone()])
        run_passes(alone, ctx, ["convert-graph-to-te"])
        kernel = next(op for op in alone.ops if isinstance(op, te.FuncOp))
        operator = mlc.build(kernel.clone(), threads=threads)
        inputs = [rng.uniform(-1, 1, spec.shape).astype(np.float32) for spec in operator.inputs]
        return operator, inputs


def matmul(size: int, threads: int) -> Any:
    """C = A @ B, all square."""
    a, b = mlc.te.placeholder((size, size), name="A"), mlc.te.placeholder((size, size), name="B")
    k = mlc.te.reduce_axis(size, "k")
    c = mlc.te.compute((size, size), lambda i, j: mlc.te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return mlc.build(mlc.te.func("matmul", [a, b], [c]), threads=threads)


# The 3 x 3 convolutions of a residual network.
CONVS = (Conv(64, 56, 56, 64), Conv(128, 28, 28, 128), Conv(256, 14, 14, 256), Conv(512, 7, 7, 512))
# What nobody tuned: prime sizes, strides, dilations, groups, depthwise.
SWEEP = (
    Conv(64, 53, 53, 64),
    Conv(61, 56, 56, 67),
    Conv(127, 29, 31, 113),
    Conv(256, 13, 13, 251),
    Conv(64, 112, 112, 128, stride=2),
    Conv(128, 57, 57, 128, stride=2),
    Conv(64, 113, 101, 64, stride=3),
    Conv(64, 56, 56, 64, dilation=2),
    Conv(128, 37, 41, 128, dilation=3),
    Conv(128, 56, 56, 128, groups=2),
    Conv(256, 28, 28, 256, groups=8),
    Conv(128, 56, 56, 128, groups=32),
    Conv(128, 56, 56, 128, groups=128),
    Conv(131, 57, 59, 131, groups=131),
    Conv(64, 56, 56, 256, kernel=1),
    Conv(251, 29, 31, 509, kernel=1),
    Conv(256, 56, 56, 512, kernel=1, stride=2),
    Conv(3, 224, 224, 64, kernel=7, stride=2),
    Conv(3, 211, 223, 61, kernel=7, stride=2),
    Conv(32, 56, 56, 32, kernel=5),
)
GEMMS = (256, 512, 1024, 2048)
