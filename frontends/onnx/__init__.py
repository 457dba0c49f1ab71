"""
ONNX models in: `import_model(path_or_proto, shapes)`.

`files` reads the protobuf and its tensors as data that may be hostile; `importer` walks the nodes and folds what
is constant; `functions` and `control` write out what is made of other nodes; the other files hold one converter
function an ONNX op, and `register_op` adds one. `backend` is the interface of ONNX's own backend tests.
"""

from mlc.frontends.onnx.importer import import_model
from mlc.frontends.onnx.node import register_op

__all__ = ["import_model", "register_op"]
