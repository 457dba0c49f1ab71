"""Transformers of many layers with open sizes, as exporters write them to ONNX."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclass(frozen=True)
class Width:
    """The sizes of a layer."""

    hidden: int = 32
    heads: int = 2
    inner: int = 48

    @property
    def head(self) -> int:
        """The numbers of one head."""
        return self.hidden // self.heads


NARROW = Width()


class _Graph:
    """A graph that grows node by node."""

    def __init__(self, width: Width) -> None:
        self.width = width
        self.rng = np.random.default_rng(5)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def node(self, kind: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        """The result of a node."""
        name = out or f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], f"{kind}_{len(self.nodes)}", **attributes))
        return name

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        """An initializer."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def weight(self, *shape: int) -> str:
        """An initializer of random numbers with which signals keep their size."""
        return self.constant(self.rng.standard_normal(shape) / shape[0] ** 0.5)

    def linear(self, x: str, inner: int, outer: int) -> str:
        """`x @ w + b`."""
        return self.node("Add", self.node("MatMul", x, self.weight(inner, outer)), self.weight(outer))

    def norm(self, x: str) -> str:
        """A layer normalization with weights of its own."""
        scale = self.constant(1 + 0.1 * self.rng.standard_normal(self.width.hidden))
        return self.node("LayerNormalization", x, scale, self.weight(self.width.hidden), axis=-1)

    def extent(self, x: str, axis: int) -> str:
        """A size of a tensor, as a list of one."""
        size = self.node("Gather", self.node("Shape", x), self.constant(axis, np.int64), axis=0)
        return self.node("Unsqueeze", size, self.constant([0], np.int64))

    def heads(self, x: str) -> str:
        """[batch, length, hidden] -> [batch, heads, length, head], with sizes read from the tensor itself."""
        fixed = self.constant([self.width.heads, self.width.head], np.int64)
        shape = self.node("Concat", self.extent(x, 0), self.extent(x, 1), fixed, axis=0)
        return self.node("Transpose", self.node("Reshape", x, shape), perm=[0, 2, 1, 3])

    def attention(self, x: str, mask: str, past: tuple[str, str] | None = None, present: tuple[str, ...] = ()) -> str:
        """Attention of x to itself and to what a cache keeps."""
        q, k, v = (self.heads(self.linear(x, self.width.hidden, self.width.hidden)) for _ in range(3))
        if past is not None:
            k, v = (self.node("Concat", *pair, axis=2, out=o) for *pair, o in zip(past, (k, v), present, strict=True))
        scores = self.node("MatMul", q, self.node("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self.node("Add", self.node("Mul", scores, self.constant(self.width.head**-0.5)), mask)
        mixed = self.node("MatMul", self.node("Softmax", scores, axis=-1), v)
        rows = self.node("Transpose", mixed, perm=[0, 2, 1, 3])
        shape = self.node(
            "Concat", self.extent(x, 0), self.extent(x, 1), self.constant([self.width.hidden], np.int64), axis=0
        )
        return self.linear(self.node("Reshape", rows, shape), self.width.hidden, self.width.hidden)

    def feed_forward(self, x: str) -> str:
        """Two products with an exact GELU between them."""
        y = self.linear(x, self.width.hidden, self.width.inner)
        erf = self.node("Erf", self.node("Mul", y, self.constant(0.5**0.5)))
        half = self.node("Mul", y, self.constant(0.5))
        y = self.node("Mul", half, self.node("Add", erf, self.constant(1.0)))
        return self.linear(y, self.width.inner, self.width.hidden)

    def model(self, inputs: dict[str, tuple[Any, ...]], outputs: dict[str, tuple[Any, ...]]) -> onnx.ModelProto:
        """The model, all of whose inputs and outputs are f32."""
        takes, gives = (
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in half.items()]
            for half in (inputs, outputs)
        )
        graph = helper.make_graph(self.nodes, "deep", takes, gives, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def encoder(layers: int, width: Width = NARROW) -> onnx.ModelProto:
    """An encoder of open batch and length with a mask over the keys: inputs `x` and `mask`, output `y`."""
    g = _Graph(width)
    x = g.norm("x")
    hidden = g.node("Sub", g.constant(1.0), "mask")
    hidden = g.node("Unsqueeze", g.node("Mul", hidden, g.constant(-1e4)), g.constant([1, 2], np.int64))
    for _ in range(layers):
        x = g.norm(g.node("Add", x, g.attention(x, hidden)))
        x = g.norm(g.node("Add", x, g.feed_forward(x)))
    g.node("Identity", x, out="y")
    rows = ("batch", "length", width.hidden)
    return g.model({"x": rows, "mask": ("batch", "length")}, {"y": rows})


def decoder(layers: int, width: Width = NARROW) -> onnx.ModelProto:
    """
    A step of a decoder whose cache is open: inputs `x`, `mask` over all keys, `k0`, `v0`, `k1` .. of past length.

    Outputs are `y` and the caches with the step's keys and values behind them: `k0_out`, `v0_out`, `k1_out` ..
    """
    g = _Graph(width)
    x, mask = "x", g.node("Unsqueeze", "mask", g.constant([1, 2], np.int64))
    inputs: dict[str, tuple[Any, ...]] = {"x": ("batch", 1, width.hidden), "mask": ("batch", "past + 1")}
    outputs: dict[str, tuple[Any, ...]] = {"y": ("batch", 1, width.hidden)}
    for n in range(layers):
        past, present = (f"k{n}", f"v{n}"), (f"k{n}_out", f"v{n}_out")
        inputs |= dict.fromkeys(past, ("batch", width.heads, "past", width.head))
        outputs |= dict.fromkeys(present, ("batch", width.heads, "past + 1", width.head))
        x = g.node("Add", x, g.attention(g.norm(x), mask, past, present))
        x = g.node("Add", x, g.feed_forward(g.norm(x)))
    g.node("Identity", g.norm(x), out="y")
    return g.model(inputs, outputs)


def encoder_inputs(batch: int, length: int, width: Width = NARROW) -> dict[str, Any]:
    """What an encoder is run on; the last row's end is masked."""
    rng = np.random.default_rng(batch * 100 + length)
    mask = np.ones((batch, length), np.float32)
    mask[-1, length // 2 + 1 :] = 0
    return {"x": rng.standard_normal((batch, length, width.hidden)).astype(np.float32), "mask": mask}


def decoder_inputs(layers: int, batch: int, past: int) -> dict[str, Any]:
    """What a step of a decoder is run on."""
    rng = np.random.default_rng(batch * 100 + past)

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    caches = {f"{kind}{n}": normal(batch, NARROW.heads, past, NARROW.head) for n in range(layers) for kind in "kv"}
    return {"x": normal(batch, 1, NARROW.hidden), "mask": normal(batch, past + 1), **caches}
