"""
The standard interface of ONNX backends: `prepare(model).run(inputs)`, by `mlc.compile` alone.

A model that AOT refuses, since values of its inputs decide ranks, axes or sizes, is one of the vm (docs/vm.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

from mlc.driver.models.compile import compile
from mlc.runtime.executable import Executable
from mlc.support.errors import UserError, collected_warnings


class MlcBackendRep(BackendRep):
    """A model as `mlc.compile` makes it; what only the values of inputs decide, the vm compiles at a call."""

    def __init__(self, model: onnx.ModelProto, **options: Any):
        with collected_warnings() as self.warnings:
            settings: dict[str, Any] = {"cache": False, "threads": 1, **options}
            self.executable: Executable = compile(model, **settings)
        self.names = [info.name for info in model.graph.output]

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs, in the model's order, on a sequence (or a dict) of arrays."""
        with collected_warnings():
            outputs = self.executable(self._named(inputs))
        return namedtupledict("Outputs", self.names)(*(self._put_together(name, outputs) for name in self.names))

    def _named(self, inputs: Any) -> dict[str, Any]:
        """The inputs by name; those that are left out at the end are absent optionals."""
        specs = self.executable.inputs
        if isinstance(inputs, Mapping):
            given = dict(cast("Mapping[str, Any]", inputs))
        else:
            sequence = list(cast("Sequence[Any]", inputs)) if isinstance(inputs, Sequence) else [inputs]
            if len(sequence) > len(specs):
                raise UserError(f"expected {len(specs)} inputs, but got {len(sequence)}")
            given = dict(zip([spec.name for spec in specs], sequence, strict=False))
        absent = {spec.name: None for spec in specs if spec.shape is None}
        return {**absent, **{name: _array(value) for name, value in given.items()}}

    def _put_together(self, name: str, outputs: Mapping[str, Any]) -> Any:
        """An output: a tensor, a list of tensors, or None."""
        if name in outputs:
            return outputs[name]
        parts = self.executable.artifact.model["structure"][name]
        return None if parts is None else [outputs[part] for part in parts]


def _array(value: Any) -> Any:
    """A tensor as an array; sequences and what is absent as they are."""
    if value is None or isinstance(value, list | tuple):
        return cast("Any", value)
    return np.asarray(value)


class MlcBackend(Backend):
    """ONNX models, compiled for this machine."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether every op of the model is one that mlc compiles."""
        from mlc.frontends.onnx.importer import unsupported_nodes

        return cls.supports_device(device) and not unsupported_nodes(model)

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> MlcBackendRep:
        """A model to be run; `kwargs` are those of `mlc.compile`."""
        if not cls.supports_device(device):
            raise UserError(f"expected the device CPU, but got {device}")
        return MlcBackendRep(model, **kwargs)

    @classmethod
    def run_node(
        cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        """The outputs of one node; `opset_version` says which opset it is of (default: the newest)."""
        arrays = [np.asarray(array) for array in inputs]
        named = [name for name in node.input if name]
        given = [
            onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in zip(named, arrays, strict=True)
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        opset = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        graph = onnx.helper.make_graph([node], node.op_type, given, outputs)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(node.domain, opset)])
        return cls.prepare(model, device, **kwargs).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Only the CPU."""
        return device.partition(":")[0] == "CPU"


is_compatible = MlcBackend.is_compatible
prepare = MlcBackend.prepare
run_model = MlcBackend.run_model
run_node = MlcBackend.run_node
supports_device = MlcBackend.supports_device
