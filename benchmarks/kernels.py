"""Single kernels: matrix products from `mlc.te`, convolutions from the graph level as a model's would be lowered."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

import mlc
from mlc.dialects import te
from mlc.dialects.graph.store import attach_store
from mlc.dialects.syntax.source import parse_module
from mlc.driver.kernels.flops import flops_of
from mlc.driver.options import Options
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.support.weights import WeightStore


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
        rng, shape = np.random.default_rng(0), (self.outputs, self.channels // self.groups, self.kernel, self.kernel)
        weights = {"w": rng.uniform(-0.1, 0.1, shape), "b": rng.uniform(-1, 1, self.outputs)}
        operator = mlc.build(heaviest(self.text(), weights, threads, winograd), threads=threads)
        inputs = [rng.uniform(-1, 1, spec.shape).astype(np.float32) for spec in operator.inputs]
        return operator, inputs


def heaviest(text: str, weights: dict[str, Any], threads: int, winograd: bool = False) -> te.FuncOp:
    """The kernel with most arithmetic of a graph, as the compiler lowers it."""
    module, ctx, store = parse_module(text), make_context(), WeightStore()
    for name, array in weights.items():
        store.add(name, array.astype(np.float32))
    attach_store(module, store)
    passes = Options(threads=threads).pipeline("graph")
    run_passes(module, ctx, [one for one in passes if winograd or one.name != "graph-select-algorithm"])
    kernels = [op for op in module.ops if isinstance(op, FuncOp) and "graph.kernel" in op.attributes]
    alone = ModuleOp([max(kernels, key=flops_of).clone()])
    run_passes(alone, ctx, ["convert-graph-to-te"])
    return next(op for op in alone.ops if isinstance(op, te.FuncOp)).clone()


@dataclass(frozen=True)
class Product:
    """C = A @ B; B is transposed, or a weight that the compiler packs ahead of time; or a batch of products."""

    m: int
    n: int
    k: int
    transposed: bool = False
    weight: bool = False
    batch: int = 1

    def __str__(self) -> str:
        batch = f"{self.batch} x " if self.batch > 1 else ""
        kind = ", B^T" if self.transposed else ", weight" if self.weight else ""
        return f"{batch}{self.m} x {self.n} x {self.k}{kind}"

    @property
    def gflop(self) -> float:
        """Multiplications and additions, in 10^9."""
        return 2e-9 * self.batch * self.m * self.n * self.k

    @property
    def gbytes(self) -> float:
        """Operands and result, each once, in 10^9 bytes."""
        return 4e-9 * self.batch * (self.m * self.k + self.k * self.n + self.m * self.n)

    def arrays(self) -> tuple[Any, Any]:
        """A and B, B as [k, n]."""
        rng, outer = np.random.default_rng(0), (self.batch,) if self.batch > 1 else ()
        a = rng.uniform(-1, 1, (*outer, self.m, self.k)).astype(np.float32)
        b = rng.uniform(-1, 1, (*outer, self.n, self.k) if self.transposed else (*outer, self.k, self.n))
        b = b.astype(np.float32)
        return a, b.swapaxes(-1, -2) if self.transposed else b

    def operator(self, threads: int) -> tuple[Any, list[Any]]:
        """The kernel and its inputs; a weight in the layout that the compiler packs it into."""
        a, b = self.arrays()
        if not self.weight:
            return self._given(threads), [a, b.swapaxes(-1, -2) if self.transposed else b]
        x, w, y = f"{self.m}x{self.k}xf32", f"{self.n}x{self.k}xf32", f"{self.m}x{self.n}xf32"
        text = f"""
        func.func @main(%x: tensor<{x}>) -> tensor<{y}> {{
          %w = graph.param "w" : tensor<{w}>
          %0 = graph.dense %x, %w : (tensor<{x}>, tensor<{w}>) -> tensor<{y}>
          return %0 : tensor<{y}>
        }}"""
        kernel = heaviest(text, {"w": b.T}, threads)
        operator = mlc.build(kernel, threads=threads)
        _, _, lanes = operator.inputs[1].shape
        padded = np.zeros((self.k, -(-self.n // lanes) * lanes), np.float32)
        padded[:, : self.n] = b
        return operator, [a, np.ascontiguousarray(padded.reshape(self.k, -1, lanes).swapaxes(0, 1))]

    def _given(self, threads: int) -> Any:
        """Both operands given at the call."""
        outer = (self.batch,) if self.batch > 1 else ()
        a = mlc.te.placeholder((*outer, self.m, self.k), name="A")
        b = mlc.te.placeholder((*outer, *((self.n, self.k) if self.transposed else (self.k, self.n))), name="B")
        k = mlc.te.reduce_axis(self.k, "k")

        def body(*at: Any) -> Any:
            *o, i, j = at
            return mlc.te.sum(a[(*o, i, k)] * b[(*o, j, k) if self.transposed else (*o, k, j)], axis=k)

        c = mlc.te.compute((*outer, self.m, self.n), body, name="C")
        return mlc.build(mlc.te.func("matmul", [a, b], [c]), threads=threads)


# The 3 x 3 convolutions of a residual network.
CONVS = (Conv(64, 56, 56, 64), Conv(128, 28, 28, 128), Conv(256, 14, 14, 256), Conv(512, 7, 7, 512))
# Untuned shapes: prime sizes, strides, dilations, groups, depthwise.
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
WIDTHS = (384, 768, 1536, 3072)
# Cubes, a transformer's products by weights and of its attention, and untuned sizes.
GEMMS = (
    *(Product(n, n, n) for n in (64, 128, 256, 512, 1024, 2048)),
    *(Product(m, n, k, weight=True) for m in (1, 128) for n in WIDTHS for k in WIDTHS),
    *(Product(m, 768, 768) for m in (1, 2, 4, 8, 16)),
    Product(128, 384, 384, transposed=True),
    Product(512, 512, 512, transposed=True),
    Product(128, 128, 32, transposed=True, batch=12),
    Product(128, 32, 128, batch=12),
    Product(61, 67, 71),
    Product(257, 509, 1031),
)
