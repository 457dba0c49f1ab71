"""Which ONNX ops take padded tensors, whose length along one axis is known only at run time (`common/counted.py`)."""

from __future__ import annotations

from mlc.frontends.common.counted import COUNTED_HINT
from mlc.frontends.common.source_node import NeedsValues
from mlc.frontends.onnx.node import Node

TAKE_COUNTED = frozenset(
    "Identity Cast Abs Neg Exp Log Sqrt Sin Cos Tan Tanh Sigmoid Relu Erf Floor Ceil Round Sign Not Reciprocal Clip "
    "Add Sub Mul Div Mod Pow Min Max And Or Xor Equal Greater GreaterOrEqual Less LessOrEqual Where BitwiseAnd "
    "Transpose Squeeze Unsqueeze Gather GatherND Concat Flatten Shape Size If Loop Scan CastLike "
    "Slice Split Reshape Expand TopK Softmax LogSoftmax MatMul Gemm LayerNormalization ReduceSum ReduceMax ReduceMin "
    "ReduceMean ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp ArgMax ArgMin LeakyRelu Elu "
    "HardSigmoid HardSwish Softplus Gelu Mish Selu IsNaN IsInf BitwiseOr BitwiseXor Sum Mean ScatterND".split()
)
"""Ops whose converters handle a padded tensor; others would take the padded size for the size."""


def check_counts(node: Node) -> None:
    """NeedsValues where an input is a padded tensor and the op's converter does not handle these."""
    for index, value in enumerate(node.inputs):
        if value is not None and value.counted is not None and node.proto.op_type not in TAKE_COUNTED:
            error = node.fail(
                f"expected input {index} ('{value.name}') of a size known at import, but got up to "
                f"{value.shape[value.counted.axis]} elements{COUNTED_HINT}"
            )
            raise NeedsValues(str(error), node.importer.sources(value.counted.value))
