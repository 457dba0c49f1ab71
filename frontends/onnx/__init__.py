"""
ONNX models in: `import_model(path_or_proto, shapes)`.

`files` reads the protobuf and its tensors as data that may be hostile; `importer` walks the nodes and folds what
is constant; `nn`, `math` and `shape` hold one converter function an ONNX op.
"""

from mlc.frontends.onnx.importer import import_model

__all__ = ["import_model"]
