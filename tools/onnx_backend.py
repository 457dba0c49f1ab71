"""
The standard interface of ONNX backends: `prepare(model).run(inputs)`, all of it compiled code.

A model is compiled when it first sees inputs of certain shapes. The import finds inputs whose values determine
shapes (those of Reshape, Slice or Pad), and the model is compiled for each combination of their values; the compiled
code still computes everything from them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

from mlc.frontends.common.source_node import NeedsValues
from mlc.frontends.onnx.importer import import_model
from mlc.frontends.onnx.structured import StructuredValues, structure_of, tensor_type
from mlc.support.errors import UserError

Structure = Mapping[str, list[str] | None]
CACHED = 32
"""Compilations of one model that are kept, the least recently used go first."""


class MlcBackendRep(BackendRep):
    """A model that is compiled for the shapes, and the shape-like values, of the inputs that it is run on."""

    def __init__(self, model: onnx.ModelProto, **options: Any):
        self.model = model
        self.options: dict[str, Any] = {"cache": False, "threads": 1, **options}
        constant = {tensor.name for tensor in model.graph.initializer}
        infos = [info for info in model.graph.input if info.name not in constant]
        self.names = [info.name for info in infos]
        self.sequences = {info.name for info in infos if tensor_type(info.type)[1]}
        self._known: set[str] = set()
        """The inputs whose values the import asked for."""
        self._compiled: OrderedDict[Any, Any] = OrderedDict()

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs, in the model's order, on a sequence (or a dict) of arrays."""
        arrays, shapes = self._arrays(inputs)
        executable, structure = self._find(arrays, shapes)
        outputs = executable({spec.name: arrays[spec.name] for spec in executable.inputs})
        names = [info.name for info in self.model.graph.output]
        return namedtupledict("Outputs", names)(*(_put_together(name, structure, outputs) for name in names))

    def _arrays(self, inputs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The inputs' tensors, those of sequences by names of their own; and the shapes of all inputs."""
        if isinstance(inputs, Mapping):
            given = dict(cast("Mapping[str, Any]", inputs))
        else:
            sequence = list(cast("Sequence[Any]", inputs)) if isinstance(inputs, Sequence) else [inputs]
            if len(sequence) > len(self.names):
                raise UserError(f"expected {len(self.names)} inputs, but got {len(sequence)}")
            given = dict(zip(self.names, sequence, strict=False))
        arrays: dict[str, Any] = {}
        shapes: dict[str, Any] = {}
        for name, value in given.items():
            if isinstance(value, list | tuple) and name in self.sequences:
                elements = cast("Sequence[Any]", value)
                parts = StructuredValues().split(name, len(elements), self.names)
                arrays |= (items := {part: np.asarray(array) for part, array in zip(parts, elements, strict=True)})
                shapes[name] = tuple(array.shape for array in items.values())
            elif value is None:
                shapes[name] = None
            else:
                arrays[name] = np.asarray(cast("Any", value))
                shapes[name] = arrays[name].shape
        return arrays, shapes

    def executable(self, inputs: Any) -> Any:
        """The compiled model for inputs like these."""
        return self._find(*self._arrays(inputs))[0]

    def _find(self, arrays: Mapping[str, Any], shapes: Mapping[str, Any]) -> tuple[Any, Structure]:
        """The compiled model for inputs like these, and the structure of its outputs."""
        from mlc.driver.compile import compile

        model, key = None, self._key(arrays, shapes)
        while key not in self._compiled and model is None:
            bound = {name: arrays[name] for name in self._known}
            try:
                model = import_model(self._shaped(arrays), shapes, bound)
            except NeedsValues as needs:
                if needs.inputs <= self._known or not needs.inputs <= arrays.keys():
                    raise
                self._known |= needs.inputs
                key = self._key(arrays, shapes)
        if model is not None:
            self._compiled[key] = compile(model, **self.options), structure_of(model.main.attributes)
            if len(self._compiled) > CACHED:
                self._compiled.popitem(last=False)
        self._compiled.move_to_end(key)
        return self._compiled[key]

    def _shaped(self, arrays: Mapping[str, Any]) -> onnx.ModelProto:
        """The model, in which inputs without elements have explicit sizes: a 0 in the file would mean an open size."""
        if all(array.size for array in arrays.values()):
            return self.model
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        for info in model.graph.input:
            array = arrays.get(info.name)
            for dim, size in zip(info.type.tensor_type.shape.dim, () if array is None else array.shape, strict=False):
                dim.dim_value = size
        return model

    def _key(self, arrays: Mapping[str, Any], shapes: Mapping[str, Any]) -> Any:
        return tuple(shapes.items()), tuple(
            (name, arrays[name].tobytes()) for name in sorted(self._known & arrays.keys())
        )


def _put_together(name: str, structure: Structure, tensors: Mapping[str, Any]) -> Any:
    """An output: a tensor, a list of tensors, or None."""
    parts = structure.get(name, name)
    return tensors[parts] if isinstance(parts, str) else None if parts is None else [tensors[part] for part in parts]


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
