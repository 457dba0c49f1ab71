"""A small ONNX model in the making: its sizes are drawn by a seed, its weights and inputs follow from the same seed."""

import random
import zlib
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSET = 20
IR_VERSION = 10
SEVEN_BITS = 63
"""
The greatest magnitude of weights in bytes with which the sum of two products by unsigned bytes fits in 16 bits.

Without VNNI OpenVINO saturates larger ones in convolutions, onnxruntime and OpenVINO in products.
"""


class Net:
    """
    A model being built. With `smallest`, each draw returns the first or least value of its range.

    Sizes: `pick`, `span`. Values: `input`, `weight`, `const`. Nodes: `op`, and shorthands such as `conv`.
    """

    def __init__(self, seed: str, smallest: bool = False) -> None:
        self._random = random.Random(seed)
        self._arrays = np.random.default_rng(zlib.crc32(seed.encode()))
        self._smallest = smallest
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._count = 0
        self.drawn: dict[str, Any] = {}
        """What was drawn, by name."""
        self.inputs: dict[str, np.ndarray[Any, Any]] = {}

    def pick(self, name: str, *options: Any) -> Any:
        """One of the options; the smallest draw is the first."""
        self.drawn[name] = options[0] if self._smallest else self._random.choice(options)
        return self.drawn[name]

    def span(self, name: str, least: int, most: int, step: int = 1) -> int:
        """A multiple of `step` above `least` in [least, most]; the smallest draw is `least`."""
        chosen = least if self._smallest else self._random.randrange(least, most + 1, step)
        self.drawn[name] = chosen
        return chosen

    def _name(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def input(self, *shape: int, dtype: Any = np.float32, low: float = -1.0, high: float = 1.0) -> str:
        """An input of uniformly distributed values."""
        name = self._name()
        self.inputs[name] = self._values(shape, dtype, low, high)
        return name

    def _values(self, shape: tuple[int, ...], dtype: Any, low: float, high: float) -> np.ndarray[Any, Any]:
        if np.issubdtype(dtype, np.integer):
            return self._arrays.integers(int(low), int(high), shape).astype(dtype)
        if dtype == np.bool_:
            return self._arrays.random(shape) < 0.5
        return self._arrays.uniform(low, high, shape).astype(dtype)

    def weight(self, *shape: int, dtype: Any = np.float32, low: float = -1.0, high: float = 1.0, fan: int = 0) -> str:
        """A constant of random values, divided by the square root of `fan`, the terms of the sums that it enters."""
        values = self._values(shape, dtype, low, high)
        return self.const(values / np.sqrt(fan, dtype=np.float32) if fan else values)

    def const(self, value: Any, dtype: Any = None) -> str:
        """A constant."""
        name = self._name()
        self._weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def op(self, kind: str, *operands: str, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
        """A node; the name of its result, or a list of names."""
        names = [self._name() for _ in range(outputs)]
        self._nodes.append(helper.make_node(kind, operands, names, f"{kind}_{names[0]}", domain=domain, **attributes))
        return names if outputs > 1 else names[0]

    def conv(self, x: str, inputs: int, outputs: int, *kernel: int, bias: bool = True, **attributes: Any) -> str:
        """A convolution with padding that keeps the picture's size at stride 1, unless `pads` says otherwise."""
        groups = attributes.get("group", 1)
        dilations = attributes.get("dilations", [1] * len(kernel))
        halves = [rate * (size - 1) // 2 for rate, size in zip(dilations, kernel, strict=True)]
        attributes.setdefault("pads", halves * 2)
        fan = inputs // groups * int(np.prod(kernel))
        w = self.weight(outputs, inputs // groups, *kernel, fan=fan)
        operands = (x, w, self.weight(outputs)) if bias else (x, w)
        return self.op("Conv", *operands, kernel_shape=list(kernel), **attributes)

    def norm(self, x: str, channels: int) -> str:
        """Batch normalisation."""
        gain, shift, mean = self.weight(channels, low=0.5, high=1.5), self.weight(channels), self.weight(channels)
        return self.op("BatchNormalization", x, gain, shift, mean, self.weight(channels, low=0.5, high=1.5))

    def matmul(self, x: str, inputs: int, outputs: int, bias: bool = True) -> str:
        """A product by a weight, and a bias."""
        y = self.op("MatMul", x, self.weight(inputs, outputs, fan=inputs))
        return self.op("Add", y, self.weight(outputs)) if bias else y

    def model(self, *outputs: str) -> onnx.ModelProto:
        """The model with these results."""
        infos = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in self.inputs.items()
        ]
        results = [onnx.ValueInfoProto(name=name) for name in outputs]
        graph = helper.make_graph(self._nodes, "kind", infos, results, self._weights)
        opsets = [helper.make_opsetid("", OPSET)]
        if any(node.domain for node in self._nodes):
            opsets.append(helper.make_opsetid("com.microsoft", 1))
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        return onnx.shape_inference.infer_shapes(model)
