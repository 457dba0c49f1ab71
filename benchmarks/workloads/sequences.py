"""Recurrent networks."""

from typing import Any

import numpy as np

from .kind import kind
from .net import SEVEN_BITS, Net


def _recurrent(op: str, gates: int, name: str, hidden: tuple[int, ...], length: tuple[int, int], both: bool) -> None:
    @kind(f"recurrent/{name}")
    def build(net: Net) -> str:
        h, inputs = net.pick("hidden", *hidden), net.pick("inputs", 64, 128)
        t, n = net.span("steps", *length), net.pick("batch", 1, 4)
        ways = 2 if both else 1
        x = net.input(t, n, inputs)
        w, r = net.weight(ways, gates * h, inputs, fan=inputs), net.weight(ways, gates * h, h, fan=h)
        bias = net.weight(ways, 2 * gates * h)
        extra: dict[str, Any] = {"linear_before_reset": 1} if op == "GRU" else {}
        direction = "bidirectional" if both else "forward"
        return net.op(op, x, w, r, bias, hidden_size=h, direction=direction, **extra)


_recurrent("LSTM", 4, "LSTM", (64, 128, 256), (10, 60), False)
_recurrent("LSTM", 4, "LSTM both ways", (48, 96), (20, 80), True)
_recurrent("LSTM", 4, "LSTM, wide", (512, 768), (5, 20), False)
_recurrent("GRU", 3, "GRU", (64, 128, 256), (10, 60), False)
_recurrent("GRU", 3, "GRU both ways", (64, 96), (20, 80), True)
_recurrent("RNN", 1, "RNN", (64, 128, 256), (10, 60), False)


@kind("recurrent/LSTM of weights in bytes", tolerance=5e-3)  # states are rounded to bytes in each step
def dynamic_quantised(net: Net) -> str:
    h, t = net.pick("hidden", 128, 256), net.span("steps", 10, 30)
    x = net.input(t, 1, h)
    w, r = (net.weight(1, h, 4 * h, dtype=np.int8, low=-SEVEN_BITS, high=SEVEN_BITS) for _ in range(2))
    scale, zero = net.const([0.0013], np.float32), net.const([0], np.int8)
    return net.op(
        "DynamicQuantizeLSTM", x, w, r, net.weight(1, 8 * h), "", "", "", "", scale, zero, scale, zero,
        domain="com.microsoft", hidden_size=h,
    )  # fmt: skip
