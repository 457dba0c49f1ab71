"""
The part that the frontends share: the model that each of them builds, and the means to build and to edit its graph.

    values, builder    values during import; the base of the importers, which emits ops and folds constants
    source_node        the base of a node under conversion: an ONNX node, a call of an ATen op
    elementwise, movement, windows, regions    what converters are made of
    sizes, size_data, spans, counted    symbolic and data-dependent sizes
    ops/               conversions that ONNX and ATen ops share
    model, edit        the result of an import

Imports nothing of ONNX or PyTorch.
"""
