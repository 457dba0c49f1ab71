"""
ONNX operators: one converter function each, by family, in the dict CONVERTERS of each file (see `table.py`).

In: a node. Out: the values of its results. What an ATen op shares with it is in `common/ops/`.
"""
