"""
Models and operators in: `onnx/`, `torch/` and `te/`, and `common/`, which they share.

In: an ONNX file, a torch.export program, Python functions. Out: a Model (a graph-level module and its weights), or a
te.func op. Nothing here compiles or runs a model.
"""
