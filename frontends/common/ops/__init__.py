"""
Conversions that an ONNX operator and an ATen op share, as functions of plain arguments.

In: the node under conversion (only to emit ops and to name errors), values, and attributes as Python values. Out: the
results. Attributes of ONNX nodes are read in `onnx/ops/`, arguments of ATen calls in `torch/ops/`.
"""
