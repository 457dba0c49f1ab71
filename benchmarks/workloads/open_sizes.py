"""The model of a kind with symbols for sizes of its inputs, and no shapes but those that follow from them."""

from collections.abc import Iterator

import onnx

FEW = 4
"""Sizes up to which an axis is one of images or of colours, whose number a model knows."""
OTHERS = ((0, 1), (0,), (1,), (2,), (3,))
"""Axes that are opened where those of `_usual_axes` cannot be."""
PIXELS = {"Conv", "ConvTranspose", "MaxPool", "AveragePool", "QLinearConv", "ConvInteger"}
PRODUCTS = {"MatMul", "Gemm", "Einsum", "MatMulInteger", "QLinearMatMul"}


def open_models(model: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """The model with the sizes of some axes open: those for which shape inference finds nothing that is wrong."""
    kinds = {node.op_type for node in model.graph.node}
    for axes in (None, *OTHERS):
        one = onnx.ModelProto()
        one.CopyFrom(model)
        if not _open(one, axes, kinds):
            continue
        try:
            yield onnx.shape_inference.infer_shapes(one, strict_mode=True)
        except onnx.shape_inference.InferenceError:  # a reshape to a size that is a number
            continue


def _usual_axes(rank: int, kinds: set[str]) -> tuple[int, ...]:
    """The axes that models leave open: of pictures and signals the pixels, else the rows in front of the features."""
    if kinds & PIXELS or (rank > 3 and not kinds & PRODUCTS):
        return tuple(range(2, rank))
    return (rank - 2,)


def _open(model: onnx.ModelProto, axes: tuple[int, ...] | None, kinds: set[str]) -> bool:
    """Give equal sizes along these axes of the inputs one symbol; False if there is none of more than `FEW`."""
    graph, found = model.graph, False
    for value in graph.input:
        dims = value.type.tensor_type.shape.dim
        chosen = _usual_axes(len(dims), kinds) if axes is None else axes
        for axis, dim in enumerate(dims):
            if axis in chosen and dim.dim_value > FEW:
                dim.dim_param, found = f"size{dim.dim_value}", True
    del graph.value_info[:]
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")
    return found
