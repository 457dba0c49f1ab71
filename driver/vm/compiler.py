"""Makes the executable of the vm: one segment where AOT compiles the model, else functions that are resolved."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlc.driver.toolchain import LLVM
from mlc.runtime.arrays import TensorSpec
from mlc.runtime.artifact import Artifact
from mlc.runtime.cpu import missing_features, needed_features
from mlc.runtime.vm.executable import LIST, VmExecutable, VmSource, vm_of
from mlc.runtime.vm.flatten import segment_of
from mlc.runtime.vm.machine import KEPT_FUNCTIONS, Resolver, VirtualMachine
from mlc.runtime.vm.memory import WorkspaceBlocks
from mlc.runtime.vm.program import Body, Function
from mlc.runtime.vm.segment import Segment
from mlc.support.errors import UserError
from mlc.support.scratch import remove_scratch

if TYPE_CHECKING:
    import onnx

    from mlc.driver.cache import Cache
    from mlc.driver.options import Options
    from mlc.driver.vm.onnx_functions import OnnxFunction
    from mlc.frontends.common.model import Model

Shapes = Mapping[str, Sequence[Any]]


class Compiler:
    """Compiles models to segments that share one pool of memory."""

    def __init__(self, options: Options, store: Cache | None, pool: WorkspaceBlocks) -> None:
        self.options, self.store, self.pool = options, store, pool

    def segment(self, model: Model, name: str, groups: Sequence[Any] | None = None) -> Segment:
        """A model as a segment; `groups` says how its outputs become registers."""
        from mlc.driver.models.compile import build_artifact

        artifact, own = build_artifact(model, self.options, None, self.store, name="segment")
        return self.loaded(artifact, own, name, groups)

    def loaded(self, artifact: Artifact, own: bool, name: str, groups: Sequence[Any] | None = None) -> Segment:
        """A compiled model as a segment, which removes the files if they are its own."""
        from mlc.driver.vm.resolver import owned

        try:
            check_runs_here(artifact)
            code = segment_of(name, artifact.model, groups)
            segment = Segment(code, artifact, self.options.threads, self.pool, LLVM())
        except BaseException:
            if own:
                remove_scratch(artifact.path)
            raise
        return owned(segment, partial(remove_scratch, artifact.path)) if own else segment


def check_runs_here(artifact: Artifact) -> None:
    """UserError for code that this CPU cannot run: the vm runs kernels in this process."""
    needed, machine = needed_features(artifact.model), os.uname().machine
    if artifact.model["target"]["triple"].partition("-")[0] != machine:
        raise UserError(f"expected a target that runs here for the vm, but got {artifact.model['target']['name']}")
    if needed is not None and (reason := missing_features(needed, machine)) is not None:
        raise UserError(reason)


def known_vm(artifact: Artifact, own: bool, options: Options, memory_limit: int | None = None) -> VmExecutable:
    """The vm of a model that AOT compiled."""
    check_runs_here(artifact)
    executable = vm_of(artifact, options.threads, LLVM(), memory_limit)
    if own:
        from mlc.driver.vm.resolver import owned

        owned(executable.machine.functions[0].body.segments[0], partial(remove_scratch, artifact.path))  # pyright: ignore[reportOptionalMemberAccess] vm_of made it
    return executable


def open_vm(
    source: str | os.PathLike[str] | onnx.ModelProto,
    options: Options,
    store: Cache | None,
    shapes: Shapes | None = None,
    kept: int = KEPT_FUNCTIONS,
    memory_limit: int | None = None,
) -> VmExecutable:
    """The vm of an ONNX model, compiled when it is called."""
    from mlc.driver.vm.onnx_functions import function_of
    from mlc.driver.vm.resolver import OnnxResolver

    template = function_of(source)
    compiler = Compiler(options, store, WorkspaceBlocks(memory_limit))
    functions = [Function("main", template=template)]
    machine = VirtualMachine(functions, OnnxResolver(compiler.segment, functions), kept)
    inputs, outputs = specs_of(template, shapes or {})
    executable = VmExecutable("main", inputs, outputs, machine, options.threads, compiler.pool)
    executable.source = _source(template, options)
    return executable


def _source(template: OnnxFunction, options: Options) -> VmSource | None:
    """What is saved of the model; nothing of one whose weights are in other files, or whose schedules are by hand."""
    proto = template.source.proto
    external = any(tensor.data_location == tensor.EXTERNAL for tensor in proto.graph.initializer)
    if external or options.schedules is not None:
        return None
    names = ("target", "opt_level", "precision")
    kept = {name: getattr(options, name) for name in names}
    others = {"error_growth": str(options.error_growth), "compilers": list(options.compilers)}
    return VmSource(proto.SerializeToString(), {**kept, **others})


def resolver_of(
    path: Path, settings: Mapping[str, Any], functions: list[Function], pool: WorkspaceBlocks, threads: int
) -> Resolver:
    """The compiler of a saved vm model: its functions get back the nodes that they are."""
    from mlc.driver.cache import Cache
    from mlc.driver.options import Options
    from mlc.driver.vm.onnx_functions import OnnxFunction, function_of
    from mlc.driver.vm.resolver import OnnxResolver

    templates = list[OnnxFunction]()
    for index, function in enumerate(functions):  # a part comes after what it is a part of
        if function.origin:
            kind, at = function.origin[1:]
            parent: int = function.origin[0]
            templates.append(templates[parent].part(kind, at))
            templates[parent].parts[kind, at] = index
        else:
            templates.append(function_of(path))
        function.template = templates[index]
    options = Options(
        settings["target"],
        settings["opt_level"],
        threads,
        precision=settings["precision"],
        error_growth=float(settings["error_growth"]),
        compilers=tuple(settings.get("compilers", ())),
    )
    return OnnxResolver(Compiler(options, Cache.default(), pool).segment, functions)


def recursive_vm(model: Model, options: Options, store: Cache | None, memory_limit: int | None = None) -> VmExecutable:
    """The vm of a module whose functions call themselves; all of it is compiled now."""
    from mlc.driver.describe.symbolic import signature_of
    from mlc.driver.vm.graph_functions import recursive_functions

    compiler = Compiler(options, store, WorkspaceBlocks(memory_limit))
    functions = recursive_functions(model, compiler.segment)
    signature = signature_of(model)
    inputs, outputs = (
        [TensorSpec(name, tuple(shape), dtype) for name, shape, dtype in signature[what]]
        for what in ("inputs", "outputs")
    )
    return VmExecutable("main", inputs, outputs, VirtualMachine(functions, None), options.threads, compiler.pool)


def with_artifact(executable: VmExecutable, artifact: Artifact, own: bool, compiler: Compiler) -> None:
    """Let an open vm run what AOT compiled where the sizes fit, so that it resolves only others."""
    segment = compiler.loaded(artifact, own, "main")
    count, results = len(segment.inputs), len(executable.outputs)
    places = list(range(count, count + results))
    code: list[Any] = [("run", 0, list(range(count)), places), ("ret", places)]
    executable.machine.functions[0].general.append(Body(count + results, code, [segment]))


def specs_of(template: OnnxFunction, shapes: Shapes) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """What the file, and `shapes=`, say of inputs and outputs: names stand for open sizes, None for an open rank."""
    from mlc.frontends.onnx.structured import tensor_type

    graph = template.source.proto.graph
    inputs = {info.name: info for info in graph.input}
    for name in shapes:
        if name not in template.inputs:
            known = ", ".join(template.inputs)
            raise UserError(f"expected shapes of inputs {known}, but got an unknown input '{name}'")

    def spec(info: onnx.ValueInfoProto) -> TensorSpec:
        optional, sequence, element = tensor_type(info.type)
        dtype = _dtype(element.tensor_type.elem_type if element is not None else 0, info.name)
        if optional or sequence or element is None:
            return TensorSpec(info.name, None, f"{LIST}{dtype}" if sequence else dtype)
        if info.name in shapes:
            return TensorSpec(info.name, tuple(shapes[info.name]), dtype)
        return TensorSpec(info.name, _shape(info.name, element.tensor_type), dtype)

    return [spec(inputs[name]) for name in template.inputs], [spec(info) for info in graph.output]


def _shape(name: str, declared: onnx.TypeProto.Tensor) -> tuple[Any, ...] | None:
    if not declared.HasField("shape"):
        return None
    dims = enumerate(declared.shape.dim)
    return tuple(d.dim_value if d.HasField("dim_value") else d.dim_param or f"{name}_{axis}" for axis, d in dims)


def _dtype(element: int, name: str) -> str:
    """numpy's name of an element type; "any" where the file does not say it."""
    from mlc.frontends.onnx.files import dtype_of

    return dtype_of(element, f"'{name}'").name if element else "any"


__all__ = ["Compiler", "check_runs_here", "known_vm", "open_vm", "specs_of", "with_artifact"]
