"""Convolutions along three axes beside onnxruntime: taps in the padding, strides, dilation, groups, batches."""

from typing import Any

import numpy as np
import pytest
from onnx_graphs import check_beside_onnxruntime, one_node

import mlc

RNG = np.random.default_rng(5)


def conv(shape: tuple[int, ...], outputs: int, kernel: tuple[int, int, int], groups: int = 1, **attrs: Any) -> Any:
    """A convolution with a bias, and its input."""
    x = RNG.standard_normal(shape).astype(np.float32)
    weights = {
        "w": RNG.standard_normal((outputs, shape[1] // groups, *kernel)).astype(np.float32) / 8,
        "b": RNG.standard_normal(outputs).astype(np.float32),
    }
    return one_node("Conv", {"x": x}, weights, group=groups, **attrs), {"x": x}


CASES: dict[str, dict[str, tuple[Any, Any]]] = {
    "whole kernels": {
        "plain": conv((1, 5, 4, 6, 7), 3, (2, 3, 3)),
        "strides": conv((1, 16, 7, 9, 10), 32, (3, 3, 3), strides=[2, 2, 2], pads=[1] * 6),
        "blocks": conv((1, 32, 5, 8, 8), 16, (3, 3, 3), pads=[1, 1, 1, 1, 1, 1]),
        "dilation": conv((1, 16, 9, 6, 6), 8, (3, 1, 3), dilations=[3, 1, 2], pads=[3, 0, 2, 3, 0, 2]),
        "uneven pads": conv((1, 16, 4, 5, 5), 16, (3, 3, 3), strides=[3, 1, 1], pads=[2, 0, 1, 0, 1, 1]),
        "a tap in the padding alone": conv((1, 16, 1, 5, 5), 16, (3, 3, 3), pads=[1] * 6),
        "taps in the padding alone": conv(
            (1, 16, 2, 5, 5), 16, (3, 1, 1), dilations=[4, 1, 1], pads=[4, 0, 0, 4, 0, 0]
        ),
        "groups": conv((1, 8, 4, 5, 6), 12, (3, 3, 3), groups=4, pads=[1] * 6),
        "batch": conv((3, 6, 4, 5, 6), 4, (3, 3, 3), pads=[1] * 6, strides=[2, 1, 1]),
    },
    "kernels along the first axis": {
        "same": conv((1, 32, 6, 5, 7), 32, (3, 1, 1), pads=[1, 0, 0, 1, 0, 0]),
        "stride and dilation": conv((2, 8, 11, 4, 3), 20, (3, 1, 1), strides=[2, 1, 1], dilations=[2, 1, 1]),
        "groups": conv((1, 12, 5, 3, 3), 12, (5, 1, 1), groups=12, pads=[2, 0, 0, 2, 0, 0]),
        "one element": conv((2, 7, 3, 4, 5), 9, (1, 1, 1)),
        "padded pictures": conv((1, 4, 4, 4, 4), 4, (3, 1, 1), pads=[1, 1, 0, 1, 0, 1]),
        "strides of pictures": conv((1, 4, 4, 6, 6), 4, (2, 1, 1), strides=[1, 2, 3]),
    },
}


@pytest.mark.parametrize("family", CASES)
def test_values_are_those_of_onnxruntime(family: str) -> None:
    check_beside_onnxruntime(CASES[family])


def kernels(model: Any) -> list[str]:
    return [node["kernel"].rpartition("_")[0] for node in mlc.compile(model, cache=False).graph_json["nodes"]]


def test_frames_are_blocked_once_and_copied_by_one_kernel() -> None:
    model, _ = conv((1, 32, 5, 8, 8), 32, (3, 3, 3), pads=[1] * 6, strides=[2, 2, 2])
    names = kernels(model)
    assert len(names) == 4
    assert sum("concatenate" in name for name in names) == 1
    assert names[0] == "layout_transform"


def test_a_kernel_along_the_first_axis_moves_no_frames() -> None:
    model, _ = conv((1, 32, 6, 8, 8), 32, (3, 1, 1), pads=[1, 0, 0, 1, 0, 0])
    assert kernels(model) == ["layout_transform", "conv2d_add", "layout_transform"]
