"""The model of a kind with symbols for sizes of its inputs, and no shapes but those that follow from them."""

from collections.abc import Iterator

import onnx

TRIED_AXES = ((2, 3, 4), (0, 1), (1,), (0,), (2,), (3,))
"""Axes of the inputs whose sizes are opened together, in the order in which it is tried: pixels, then rows."""


FEW = 4
"""Sizes up to which an axis is one of images or of colours, whose number a model knows."""


def open_models(model: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """The model with the sizes of some axes open: those for which shape inference finds nothing that is wrong."""
    for axes in TRIED_AXES:
        one = onnx.ModelProto()
        one.CopyFrom(model)
        if not _open(one, axes):
            continue
        try:
            yield onnx.shape_inference.infer_shapes(one, strict_mode=True)
        except onnx.shape_inference.InferenceError:  # a reshape to a size that is a number
            continue


def _open(model: onnx.ModelProto, axes: tuple[int, ...]) -> bool:
    """Give equal sizes along these axes of the inputs one symbol; False if there is none of more than `FEW`."""
    graph, found = model.graph, False
    for value in graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if axis in axes and dim.dim_value > FEW:
                dim.dim_param, found = f"size{dim.dim_value}", True
    del graph.value_info[:]
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")
    return found
