"""Where values are computed: constraints that people write, and the copies that graph-plan-devices makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph.base import OPAQUE, GraphOp, Sample
from mlc.dialects.graph.op_attributes import Bool, Str
from mlc.dialects.graph.types import Array, Tensor, tensor


class _MovesOp(GraphOp):
    """The base of ops whose result has the elements of the operand."""

    kind = OPAQUE
    layout_rule = "elementwise"

    def infer_types(self) -> list[Tensor]:
        return [self.input_types[0]]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        return (arrays[0],)


class OnDeviceOp(_MovesOp):
    """
    `x`, which is computed on a device: `%1 = graph.on_device %0 {device = "little"} : tensor<4xf32>`.

    graph-plan-devices reads it as a constraint, and removes it. With `constrain_body` (the default) the operand, and
    what it is computed of up to the next graph.on_device or graph.device_copy, is on the device; with
    `constrain_result` the op's result is, and its readers are. A result that is free goes where its readers are.
    """

    name = "graph.on_device"
    device = Str()
    constrain_body = Bool(True)
    constrain_result = Bool(False)

    def infer_types(self) -> list[Tensor]:
        if not self.device:
            raise VerifyException("expected the name of a device, but got ''")
        return super().infer_types()

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample((tensor((2, 3)),), {"device": "cpu"})]


class DeviceCopyOp(_MovesOp):
    """`x`, copied to another device: `%1 = graph.device_copy %0 {src = "cpu", dst = "little"} : tensor<4xf32>`."""

    name = "graph.device_copy"
    src = Str()
    dst = Str()

    def infer_types(self) -> list[Tensor]:
        for end in (self.src, self.dst):
            if not end:
                raise VerifyException("expected the names of two devices, but got ''")
        return super().infer_types()

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample((tensor((2, 3)),), {"src": "cpu", "dst": "cpu"})]

    def fold(self) -> Sequence[SSAValue] | None:
        # copy(x, a, a) == x
        return (self.operands[0],) if self.src == self.dst else None


OPS: list[type[GraphOp]] = [OnDeviceOp, DeviceCopyOp]
