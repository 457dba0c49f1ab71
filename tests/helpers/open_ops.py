"""One small model of each ONNX op whose inputs have all axes open (tests/unit/frontends/onnx/test_open_ops.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZES = ((7, 9), (16, 24), (30, 70))
"""What N and M are; a case in steps has that many times as much."""
KINDS: dict[str, Any] = {"f": np.float32, "i": np.int64, "b": np.bool_, "u": np.uint8, "s": np.int8, "w": np.int32}


@dataclass
class Open:
    """An input: its axes - `N`, `M`, or numbers with commas between - its kind, and what its integers are below."""

    axes: str
    kind: str = "f"
    high: int = 5

    def sizes(self) -> list[Any]:
        """Names and numbers."""
        return [int(n) if n.isdigit() else n for n in self.axes.split(",") if n]

    def array(self, values: dict[str, int], rng: Any) -> Any:
        """An array where the names have these values."""
        shape = [values.get(n, n) for n in self.sizes()]
        dtype = KINDS[self.kind]
        if self.kind == "f":
            return rng.standard_normal(shape).astype(dtype)
        return rng.integers(0, 2 if self.kind == "b" else self.high, shape).astype(dtype)


@dataclass
class Case:
    """A node: its operands (an Open, an array, or None), how many results, and in which steps its sizes are."""

    kind: str
    operands: Sequence[Any]
    outputs: int = 1
    step: int = 1
    opset: int = 21
    attrs: dict[str, Any] = field(default_factory=dict)
    domain: str = ""

    def values(self, sizes: tuple[int, int]) -> dict[str, int]:
        """What N and M are."""
        return {"N": sizes[0] * self.step, "M": sizes[1] * self.step}

    def arrays(self, sizes: tuple[int, int]) -> list[Any]:
        """Arrays for the inputs."""
        rng = np.random.default_rng(len(self.kind))
        return [x.array(self.values(sizes), rng) for x in self.operands if isinstance(x, Open)]

    def parts(self, index: int) -> tuple[Any, list[Any], list[Any], list[str]]:
        """The node, the inputs, the constants, and the names of the results, all with a number of their own."""
        inputs, constants, names = [], [], []
        for k, x in enumerate(self.operands):
            name = "" if x is None else f"x{index}_{k}"
            names.append(name)
            if isinstance(x, Open):
                element = helper.np_dtype_to_tensor_dtype(np.dtype(KINDS[x.kind]))
                shape = [n if isinstance(n, int) else f"{n}{index}" for n in x.sizes()]
                inputs.append(helper.make_tensor_value_info(name, element, shape))
            elif x is not None:
                constants.append(numpy_helper.from_array(np.asarray(x), name))
        outputs = [f"y{index}_{k}" for k in range(self.outputs)]
        node = helper.make_node(self.kind, names, outputs, name=f"{self.kind}{index}", domain=self.domain, **self.attrs)
        return node, inputs, constants, outputs


def model_of(cases: Sequence[tuple[int, Case]]) -> onnx.ModelProto:
    """A model of several nodes that share nothing."""
    parts = [case.parts(index) for index, case in cases]
    graph = helper.make_graph(
        [node for node, *_ in parts],
        "ops",
        [info for _, inputs, _, _ in parts for info in inputs],
        [onnx.ValueInfoProto(name=name) for *_, outputs in parts for name in outputs],
        [constant for _, _, constants, _ in parts for constant in constants],
    )
    opsets = [helper.make_opsetid("", cases[0][1].opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def case(kind: str, *operands: Any, outputs: int = 1, step: int = 1, opset: int = 21, domain: str = "", **attrs: Any):
    """A case; text is the axes of an input of floats."""
    wide = [Open(x) if isinstance(x, str) else x for x in operands]
    return Case(kind, wide, outputs, step, opset, attrs, domain)


def ints(*values: int) -> Any:
    """A constant of i64."""
    return np.array(values, np.int64)


def floats(*shape: int) -> Any:
    """A constant of floats."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


NM, WHOLE, TRUTH = "N,M", Open("N,M", "i"), Open("N,M", "b")
PICTURE = "N,2,M,M"
SCALAR = np.array
STATES = {"hidden_size": 4}

ELEMENTWISE = [
    *(
        case(kind, NM)
        for kind in (
            "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid "
            "HardSwish Identity IsInf IsNaN LeakyRelu Log Mish Neg Reciprocal Relu Round Selu Shrink "
            "Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh ThresholdedRelu Hardmax LogSoftmax "
            "Softmax LpNormalization Flatten Transpose Shape Size NonZero ReduceL1 ReduceL2 "
            "ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
            "ReduceSumSquare ArgMax ArgMin EyeLike Trilu "
        ).split()
    ),
    *(
        case(kind, NM, "M")
        for kind in "Add Sub Mul Div Pow PRelu Equal Less Greater LessOrEqual GreaterOrEqual".split()
    ),
    *(case(kind, NM, NM) for kind in "Max Min Mean Sum".split()),
    *(case(kind, TRUTH, TRUTH) for kind in "And Or Xor".split()),
    *(case(kind, WHOLE, WHOLE) for kind in "BitwiseAnd BitwiseOr BitwiseXor".split()),
    case("BitwiseNot", WHOLE),
    case("BitShift", Open(NM, "u"), Open("M", "u"), direction="LEFT"),
    case("Mod", WHOLE, SCALAR(3, np.int64)),
    case("Not", TRUTH),
    case("Cast", NM, to=TensorProto.INT32),
    case("CastLike", NM, WHOLE),
    case("Clip", NM, SCALAR(-0.5, np.float32), SCALAR(0.5, np.float32)),
    case("Where", TRUTH, NM, "M"),
    case("Dropout", NM, outputs=2),
    case("ReduceSum", NM, ints(1), keepdims=0),
    case("ReduceMax", NM, ints(0)),
    case("ArgMax", NM, axis=1, select_last_index=1),
    case("MeanVarianceNormalization", PICTURE),
    case("QuantizeLinear", NM, SCALAR(0.1, np.float32), SCALAR(3, np.uint8)),
    case("DequantizeLinear", Open(NM, "u"), SCALAR(0.1, np.float32), SCALAR(3, np.uint8)),
    case("DynamicQuantizeLinear", NM, outputs=3),
]

MOVEMENT = [
    case("Concat", NM, "N,3", axis=1),
    case("ConstantOfShape", ints(2, 3)),
    case("DepthToSpace", "N,8,M,M", blocksize=2),
    case("SpaceToDepth", PICTURE, blocksize=2, step=2),
    case("Expand", "N,1,M", ints(1, 3, 1)),
    case("Gather", NM, Open("M", "i"), axis=0),
    case("GatherElements", NM, WHOLE, axis=0),
    case("GatherElements", NM, WHOLE, axis=1),
    case("GatherND", NM, Open("M,2", "i")),
    case("OneHot", WHOLE, SCALAR(6), SCALAR([2.0, 3.0], np.float32)),
    case("Pad", NM, ints(1, 2, 0, 3)),
    case("Pad", NM, ints(1, 2, 0, 3), mode="reflect"),
    case("Pad", NM, ints(1, 2, 0, 3), mode="edge"),
    case("Pad", NM, ints(1, 2, 0, 3), mode="wrap"),
    case("Range", SCALAR(2), SCALAR(9), SCALAR(3)),
    case("Reshape", "N,6,M", ints(0, 2, -1)),
    case("ReverseSequence", NM, Open("M", "i", 7)),
    case("ScatterElements", NM, WHOLE, NM, axis=1, reduction="max"),
    case("ScatterElements", NM, ints(0, 3, 1).reshape(1, 3), floats(1, 3), axis=1),
    case("ScatterND", NM, Open("N,1", "i"), NM, reduction="add"),
    case("Slice", NM, ints(1), ints(20), ints(1)),
    case("Slice", NM, ints(-3), ints(1 << 62), ints(1)),
    case("Slice", NM, ints(-1, 2), ints(-(1 << 62), -1), ints(0, 1), ints(-2, 3)),
    case("Split", NM, axis=1, outputs=2, num_outputs=2),
    case("Split", NM, axis=0, outputs=3, num_outputs=3, step=3),
    case("Squeeze", "N,1,M", ints(1)),
    case("Tile", NM, ints(2, 3)),
    case("TopK", NM, ints(4), outputs=2, axis=1),
    case("TopK", NM, ints(3), outputs=2, axis=0, largest=0),
    case("Unsqueeze", NM, ints(1)),
    case("Unique", NM, outputs=4),
    case("Compress", NM, SCALAR([1, 0, 1, 1], np.bool_), axis=1),
    case("CumSum", NM, SCALAR(1), reverse=1),
    case("CumSum", NM, SCALAR(0), exclusive=1),
    case("NonMaxSuppression", "1,N,4", "1,M,N", ints(3), SCALAR(0.3, np.float32)),
    case("CenterCropPad", NM, ints(10, 12)),
    case("Col2Im", "N,8,12", ints(5, 4), ints(2, 2)),
]

PICTURES = [
    case("AveragePool", PICTURE, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    case("AveragePool", PICTURE, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
    case("MaxPool", PICTURE, kernel_shape=[3, 3], strides=[2, 2], outputs=2),
    case("MaxPool", PICTURE, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER", step=2),
    case("LpPool", PICTURE, kernel_shape=[2, 2], strides=[2, 2]),
    case("GlobalAveragePool", PICTURE),
    case("GlobalMaxPool", PICTURE),
    case("GlobalLpPool", PICTURE),
    case("BatchNormalization", PICTURE, *(np.abs(floats(2)) for _ in range(4))),
    case("InstanceNormalization", PICTURE, floats(2), floats(2)),
    case("GroupNormalization", "N,4,M", floats(4), floats(4), num_groups=2),
    case("LayerNormalization", NM, "M"),
    case("LRN", PICTURE, size=3),
    case("Conv", PICTURE, floats(3, 2, 3, 3), pads=[1, 1, 1, 1], strides=[2, 2]),
    case("ConvTranspose", PICTURE, floats(2, 3, 3, 3), strides=[2, 2]),
    case("ConvInteger", Open(PICTURE, "u"), np.ones((3, 2, 3, 3), np.uint8)),
    case("DeformConv", "N,2,M,M", floats(3, 2, 1, 1), "N,2,M,M", opset=22),
    case("Resize", PICTURE, None, SCALAR([1, 1, 2, 2], np.float32), mode="linear"),
    case("Resize", PICTURE, None, SCALAR([1, 1, 1.5, 2], np.float32), mode="cubic"),
    case("Resize", PICTURE, None, None, ints(5, 11), axes=[2, 3], mode="nearest"),
    case("GridSample", PICTURE, "N,M,3,2", padding_mode="border"),
    case("RoiAlign", PICTURE, SCALAR([[0, 0, 4, 5], [1, 1, 6, 3]], np.float32), ints(0, 1), output_height=2,
         output_width=3, sampling_ratio=2),
    case("MaxRoiPool", PICTURE, SCALAR([[0, 0, 0, 4, 5], [1, 1, 1, 6, 3]], np.float32), pooled_shape=[2, 3]),
    case("MatMul", NM, "M,5"),
    case("MatMul", "N,M,4", "N,4,M"),
    case("MatMulInteger", Open(NM, "u"), Open("M,5", "u")),
    case("Gemm", "M,N", "M,5", "5", transA=1),
    case("Einsum", "N,M", "M,N", equation="ij,jk->ik"),
    case("Det", "N,M,3,3"),
    case("STFT", NM, SCALAR(3), None, SCALAR(6)),
    case("DFT", "N,M,1"),
    case("LSTM", "N,M,3", floats(1, 16, 3), floats(1, 16, 4), outputs=2, **STATES),
    case("GRU", "N,M,3", floats(1, 12, 3), floats(1, 12, 4), outputs=2, **STATES),
    case("RNN", "N,M,3", floats(1, 4, 3), floats(1, 4, 4), outputs=2, **STATES),
    case("NegativeLogLikelihoodLoss", "N,6", Open("N", "i")),
    case("SoftmaxCrossEntropyLoss", "N,6", Open("N", "i")),
    case("QLinearConv", Open(PICTURE, "u"), SCALAR(0.1, np.float32), SCALAR(3, np.uint8),
         np.ones((3, 2, 3, 3), np.uint8), SCALAR(0.2, np.float32), SCALAR(1, np.uint8), SCALAR(0.5, np.float32),
         SCALAR(4, np.uint8)),
    case("QLinearMatMul", Open(NM, "u"), SCALAR(0.1, np.float32), SCALAR(3, np.uint8), Open("M,4", "u"),
         SCALAR(0.2, np.float32), SCALAR(1, np.uint8), SCALAR(0.5, np.float32), SCALAR(4, np.uint8)),
]  # fmt: skip

HEAVY = set("DeformConv Resize GridSample RoiAlign MaxRoiPool GRU RNN DFT STFT Gemm LpPool QLinearConv Det".split())
"""Pictures that take the compiler longest."""

NEWER = [
    case("RMSNormalization", NM, "M", opset=23),
    case("Attention", "N,2,M,32", "N,2,M,32", "N,2,M,32", opset=23, is_causal=1),
    case("Attention", "N,M,64", "N,M,64", "N,M,64", opset=23, q_num_heads=2, kv_num_heads=2),
    case("RotaryEmbedding", "N,2,M,8", "N,M,4", "N,M,4", opset=23),
    case("Swish", NM, opset=24),
    case("TensorScatter", "N,2,M,4", "N,2,1,4", Open("N", "i"), opset=24),
    case("CumProd", NM, SCALAR(1), opset=26),
    case("BitCast", NM, opset=26, to=TensorProto.INT32),
    case("MaxUnpool", "N,1,M,M", Open("N,1,M,M", "i", 4), kernel_shape=[2, 2], strides=[2, 2]),
    case("TfIdfVectorizer", Open(NM, "w"), mode="TF", min_gram_length=1, max_gram_length=1, max_skip_count=0,
         ngram_counts=[0, 3], ngram_indexes=[0, 1, 2, 3, 4], pool_int64s=[2, 3, 4, 1, 2, 3, 4]),
]  # fmt: skip
MICROSOFT = [
    case("BiasGelu", NM, "M", domain="com.microsoft"),
    case("FastGelu", NM, "M", domain="com.microsoft"),
    case("Gelu", NM, domain="com.microsoft"),
    case("QuickGelu", NM, domain="com.microsoft"),
    case("FusedMatMul", NM, "M,5", alpha=0.5, domain="com.microsoft"),
    case("SkipLayerNormalization", "N,M,8", "N,M,8", floats(8), floats(8), domain="com.microsoft"),
    case("SkipSimplifiedLayerNormalization", "N,M,8", "N,M,8", floats(8), domain="com.microsoft"),
    case("Attention", "N,M,8", floats(8, 96), floats(96), num_heads=2, domain="com.microsoft"),
]
