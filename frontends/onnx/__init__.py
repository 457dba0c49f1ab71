"""
ONNX models in: `import_model(path_or_proto, shapes)`.

    files        the protobuf and its tensors, as untrusted data
    wire         the protobuf without the raw data of large tensors, which stays in the mapped file
    external     the bytes of tensors that are in files: external data, and what `wire` left in the model's
    importer     walks the nodes and has each converted
    node         one node under conversion: what a converter is given
    table        (domain, op) -> converter; `register_op` adds one
    functions    ops that are expanded: functions of the model and of ONNX's schemas
    symbols      the symbolic sizes of the inputs
    check        all problems of a model: `mlc check`
    ops/         the converters, by family
"""

from mlc.frontends.onnx.importer import import_model
from mlc.frontends.onnx.table import register_op

__all__ = ["import_model", "register_op"]
