"""
The graph dialect: a model as tensor ops with value semantics.

    func.func @main(%x: tensor<1x784xf32>) -> tensor<1x256xf32> {
      %w = graph.param "fc.weight" : tensor<256x784xf32>
      %b = graph.param "fc.bias" : tensor<256xf32>
      %0 = graph.dense %x, %w : (tensor<1x784xf32>, tensor<256x784xf32>) -> tensor<1x256xf32>
      %1 = graph.bias_add %0, %b : tensor<1x256xf32>
      %2 = graph.relu %1 : tensor<1x256xf32>
      return %2 : tensor<1x256xf32>
    }

The grammar of ops is documented in `base`, that of symbolic sizes in `dims`, that of layout names in `layout`.
"""

from typing import TypeVar

from xdsl.dialect_interfaces.constant_materialization import ConstantMaterializationInterface
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, Dialect, Operation

from mlc.dialects.graph.base import GraphOp, Sample, infer, location_name, name_location
from mlc.dialects.graph.dims import Dim, DimExpr, DimsAttr, SymbolAttr
from mlc.dialects.graph.ops import (
    bits,
    conv,
    conv_transpose,
    counted,
    device,
    elementwise,
    indexing,
    layout_transform,
    matmul,
    movement,
    quantize,
    reduce,
    resize,
    structure,
    trigonometry,
    winograd,
)
from mlc.dialects.graph.ops.bits import (
    BitcastOp,
    BitwiseAndOp,
    BitwiseNotOp,
    BitwiseOrOp,
    BitwiseXorOp,
    ShiftLeftOp,
    ShiftRightOp,
)
from mlc.dialects.graph.ops.control import CONTROL, ControlOp, IfOp, LoopOp, ScanOp
from mlc.dialects.graph.ops.conv import AvgPool2dOp, Conv2dOp, MaxPool2dOp, PoolOp
from mlc.dialects.graph.ops.conv_transpose import Conv2dTransposeOp
from mlc.dialects.graph.ops.counted import NonMaxSuppressionOp, NonzeroOp, UniqueOp
from mlc.dialects.graph.ops.device import DeviceCopyOp, OnDeviceOp
from mlc.dialects.graph.ops.elementwise import (
    AbsOp,
    AddOp,
    BiasAddOp,
    BinaryOp,
    CastOp,
    CeilOp,
    ClipOp,
    CosOp,
    DivideOp,
    EluOp,
    EqualOp,
    ErfOp,
    ExpOp,
    FloorOp,
    GeluOp,
    GreaterEqualOp,
    GreaterOp,
    HardSigmoidOp,
    HardSwishOp,
    IdentityOp,
    LeakyReluOp,
    LessEqualOp,
    LessOp,
    LogicalAndOp,
    LogicalNotOp,
    LogicalOrOp,
    LogicalXorOp,
    LogOp,
    MaximumOp,
    MinimumOp,
    ModOp,
    MultiplyOp,
    NegOp,
    PowerOp,
    PreluOp,
    ReciprocalOp,
    ReluOp,
    RoundOp,
    RsqrtOp,
    SigmoidOp,
    SignOp,
    SiluOp,
    SinOp,
    SoftplusOp,
    SqrtOp,
    SubtractOp,
    TanhOp,
    UnaryOp,
    WhereOp,
)
from mlc.dialects.graph.ops.indexing import (
    ArgsortOp,
    CumulativeOp,
    GatherElementsOp,
    GatherRowsOp,
    ScatterElementsOp,
    ScatterNdOp,
)
from mlc.dialects.graph.ops.layout_transform import LayoutTransformOp
from mlc.dialects.graph.ops.matmul import BatchMatmulOp, DenseOp
from mlc.dialects.graph.ops.movement import (
    BroadcastToOp,
    ConcatenateOp,
    FlipOp,
    PadOp,
    ReshapeOp,
    SliceOp,
    SplitOp,
    TakeOp,
    TileOp,
    TransposeOp,
)
from mlc.dialects.graph.ops.quantize import DequantizeOp, LookupOp, QuantizeOp
from mlc.dialects.graph.ops.reduce import (
    ArgmaxOp,
    ArgminOp,
    BatchNormOp,
    InstanceNormOp,
    LayerNormOp,
    LogSoftmaxOp,
    MaxOp,
    MeanOp,
    MinOp,
    ProdOp,
    ReduceOp,
    SoftmaxOp,
    SumOp,
)
from mlc.dialects.graph.ops.resize import Resize2dOp
from mlc.dialects.graph.ops.structure import BandOp, CallOp, ConstantOp, FullOp, FusedOp, IotaOp, ParamOp, YieldOp
from mlc.dialects.graph.ops.trigonometry import AcosOp, AsinOp, AtanOp, CoshOp, SinhOp, TanOp
from mlc.dialects.graph.ops.winograd import Conv2dWinogradOp, WinogradWeightOp
from mlc.dialects.graph.types import shape_of, static_shape, tensor

MODULES = (
    elementwise, trigonometry, bits, reduce, indexing, conv, conv_transpose, winograd, resize, matmul, movement,
    layout_transform, counted, quantize, structure, device,
)  # fmt: skip
OPS: dict[str, type[GraphOp]] = {
    op.name: op
    for module in (
        elementwise,
        trigonometry,
        bits,
        reduce,
        indexing,
        conv,
        conv_transpose,
        winograd,
        resize,
        matmul,
        movement,
        layout_transform,
        counted,
        quantize,
        structure,
        device,
    )
    for op in module.OPS
}
"""Every op with a numpy meaning and type inference: name -> class."""

GraphOpT = TypeVar("GraphOpT", bound=GraphOp)


def op_classes(base: type[GraphOpT]) -> tuple[type[GraphOpT], ...]:
    """The classes of a family, in the order of OPS: `op_classes(UnaryOp) == (ReluOp, ExpOp, ..)`."""
    return tuple(cls for cls in OPS.values() if issubclass(cls, base))


class _Constants(ConstantMaterializationInterface):
    """Folded attributes become graph.constant."""

    def materialize_constant(self, value: Attribute, type: Attribute) -> Operation | None:
        return ConstantOp.make(value) if isinstance(value, DenseIntOrFPElementsAttr) else None


Graph = Dialect("graph", [*OPS.values(), *structure.STRUCTURE, *CONTROL], [DimsAttr, SymbolAttr], [_Constants()])

__all__ = [  # noqa: RUF022
    "OPS", "Dim", "DimExpr", "DimsAttr", "Graph", "GraphOp", "Sample", "SymbolAttr", "infer", "location_name",
    "name_location", "op_classes", "shape_of", "static_shape", "tensor",
    "AcosOp", "ArgsortOp", "AsinOp", "AtanOp", "BandOp", "BitcastOp", "BitwiseAndOp", "BitwiseNotOp", "BitwiseOrOp",
    "BitwiseXorOp", "CoshOp", "CumulativeOp", "GatherElementsOp", "GatherRowsOp", "ScatterElementsOp", "ScatterNdOp",
    "ShiftLeftOp", "ShiftRightOp", "SinhOp", "TanOp",
    "AbsOp", "AddOp", "ArgmaxOp", "ArgminOp", "AvgPool2dOp", "BatchMatmulOp", "BatchNormOp", "BiasAddOp", "BinaryOp",
    "BroadcastToOp", "CallOp", "CastOp", "CeilOp", "ClipOp", "ConcatenateOp", "ConstantOp", "Conv2dOp",
    "Conv2dTransposeOp", "Conv2dWinogradOp", "CosOp",
    "DenseOp", "DequantizeOp", "DivideOp", "EluOp", "EqualOp", "ErfOp", "ExpOp", "FlipOp", "FloorOp", "FullOp",
    "FusedOp", "GeluOp",
    "GreaterEqualOp", "GreaterOp", "HardSigmoidOp", "HardSwishOp", "IdentityOp", "InstanceNormOp", "IotaOp",
    "LayerNormOp", "LayoutTransformOp", "LeakyReluOp", "LessEqualOp", "LessOp", "LogOp", "LogSoftmaxOp",
    "LogicalAndOp", "LogicalNotOp", "LogicalOrOp", "LogicalXorOp", "LookupOp", "MaxOp",
    "MaxPool2dOp", "MaximumOp", "MeanOp",
    "MinOp", "MinimumOp", "ModOp", "MultiplyOp", "NegOp", "PadOp", "ParamOp", "PoolOp", "PowerOp", "PreluOp",
    "ProdOp", "QuantizeOp", "ReciprocalOp", "ReduceOp", "ReluOp", "ReshapeOp", "Resize2dOp", "RoundOp", "RsqrtOp",
    "SigmoidOp",
    "SignOp", "SiluOp", "SinOp", "SliceOp", "SoftmaxOp", "SoftplusOp", "SplitOp", "SqrtOp", "SubtractOp", "SumOp",
    "TakeOp", "TanhOp", "TileOp", "TransposeOp", "UnaryOp", "WhereOp", "WinogradWeightOp", "YieldOp",
    "ControlOp", "DeviceCopyOp", "IfOp", "LoopOp", "NonMaxSuppressionOp", "NonzeroOp", "OnDeviceOp", "ScanOp",
    "UniqueOp",
]  # fmt: skip
