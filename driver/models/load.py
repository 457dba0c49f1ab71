"""`mlc.load`: a model from a file, an ONNX model in memory, or a torch.export program."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from inspect import isroutine
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from mlc.dialects.syntax import source as text_source
from mlc.frontends.common.model import Model
from mlc.support.errors import UserError, located
from mlc.support.files import read_file
from mlc.support.limits import limits
from mlc.support.weights import WeightStore

if TYPE_CHECKING:
    import onnx
    import torch.export
    from torch.export import ExportedProgram
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp

    from mlc.frontends.onnx.files import ModelSource


class HasExportedProgram(Protocol):
    """An object that holds a torch.export program, or has a method that returns it."""

    exported_program: object


class HasProgram(Protocol):
    """An object whose `program` is a torch.export program, or a method that returns it."""

    program: object


Source: TypeAlias = (
    "Model | str | PathLike[str] | onnx.ModelProto | torch.export.ExportedProgram | HasExportedProgram | HasProgram"
)
"""What `load` takes: a model, the path of a file, or a program in memory."""


@located()
def load(
    source: Source,
    shapes: Mapping[str, Sequence[Any]] | None = None,
    symbols: Mapping[str, Sequence[int]] | None = None,
) -> Model:
    """
    A model from an .onnx file, an onnx.ModelProto, an .mlir file and its .safetensors, a .pt2 file of
    torch.export.save, a torch.export program, or an object that has one as its `exported_program` or `program`.

    `shapes` gives input shapes that the source leaves open: `{"x": (1, 3, 48, 320)}`. Sizes that stay open, or given
    as names, `{"x": (1, 3, "H", "W")}`, are symbols: the compiled model takes inputs of any. `symbols` says which:
    `{"H": (32, 2048, 32)}`, the lowest, the highest, and a divisor.

    Raises UserError for a file that cannot be read or is no model, and UnsupportedOps for ops that mlc lacks.
    """
    return load_mapped(source, shapes, symbols, mapped=False)


def load_mapped(
    source: Source,
    shapes: Mapping[str, Sequence[Any]] | None = None,
    symbols: Mapping[str, Sequence[int]] | None = None,
    mapped: bool = True,
) -> Model:
    """As `load`; where `mapped`, large weights stay in the .onnx file, which must not change while they are used."""
    if isinstance(source, Model):
        return _with_sizes(source, shapes, symbols)
    if isinstance(source, str | PathLike):
        path = Path(source)
        if path.suffix == ".mlir":
            return _with_sizes(load_mlir(path), shapes, symbols)
        if path.suffix == ".pt2":
            return _with_sizes(_load_pt2(path, shapes), None, symbols)
        if path.suffix != ".onnx":
            raise UserError(f"{path}: expected a file that ends in .onnx, .mlir or .pt2")
        source = path
    elif (program := _exported_program(source)) is not None or _is_of_torch(source):
        return _with_sizes(_load_torch(source if program is None else program, shapes), None, symbols)
    from mlc.frontends.onnx import import_model

    # import_model refuses what is no ONNX model; programs of torch have returned above
    return import_model(cast("ModelSource", source), shapes, symbols=symbols, mapped=mapped)


def _with_sizes(
    model: Model, shapes: Mapping[str, Sequence[Any]] | None, symbols: Mapping[str, Sequence[int]] | None
) -> Model:
    """A model that declares its own symbols, with numbers in the place of some of them."""
    if symbols:
        names = ", ".join(symbols)
        raise UserError(f"expected symbols= only for an ONNX model; others declare the ranges of {names} themselves")
    if not shapes:
        return model
    from mlc.driver.models.bind_sizes import with_shapes

    return with_shapes(model, shapes)


def _is_of_torch(source: object) -> bool:
    return any(base.__module__.partition(".")[0] == "torch" for base in type(source).__mro__)


def _exported_program(source: object) -> ExportedProgram | None:
    """The torch.export program that an object is, or has as its `exported_program` or `program`; None for others."""
    torch_export = sys.modules.get("torch.export")
    if torch_export is None:
        return None
    program: type[ExportedProgram] = torch_export.ExportedProgram
    if isinstance(source, program):
        return source
    if isinstance(source, sys.modules["torch"].nn.Module):
        return None  # attributes of a module are not meant for mlc
    for name in ("exported_program", "program"):
        held = getattr(source, name, None)
        try:
            held = held() if isroutine(held) else held
        except TypeError as error:
            raise UserError(f"expected {type(source).__name__}.{name}() to need no arguments: {error}") from error
        if isinstance(held, program):
            return held
    return None


def _load_pt2(path: Path, shapes: Mapping[str, Sequence[int]] | None) -> Model:
    try:
        import torch.export  # noqa: F401  # pyright: ignore[reportUnusedImport] whether it is installed
    except ImportError as error:
        raise UserError(f"{path}: expected torch to be installed, which reads .pt2 files: {error}") from error
    from mlc.frontends.torch import import_file

    return import_file(path, shapes)


def _load_torch(source: object, shapes: Mapping[str, Sequence[int]] | None) -> Model:
    from torch.export import ExportedProgram

    from mlc.frontends.torch import import_program

    if not isinstance(source, ExportedProgram):
        raise UserError(
            f"expected a torch.export program, but got {type(source).__name__}; "
            "call mlc.from_torch(module, args), or torch.export.export"
        )
    return import_program(source, shapes)


def load_mlir(path: Path) -> Model:
    """The model of an .mlir file, and of the .safetensors file beside it where there is one."""
    model = Model(parse_module(read_text(path), str(path)), weights_beside(path) or WeightStore())
    _check_signature(model)
    _check_params(model, path)
    return model


def read_text(path: Path) -> str:
    """The text of an .mlir file; UserError for one that cannot be read."""
    try:
        return read_file(path, limits.input_bytes).decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not a text file: {error.reason}") from error


def weights_beside(path: Path) -> WeightStore | None:
    """The weights in the .safetensors file beside an .mlir file; None if there is none."""
    beside = path.with_suffix(".safetensors")
    return WeightStore.load(beside) if beside.exists() else None


def parse_module(text: str, name: str = "<text>") -> ModuleOp:
    """Parse and verify a module, which may use the program's own ops and dialects; UserError with the place."""
    return text_source.parse_module(text, name, model_context())


def model_context() -> Context:
    """A context with mlc's dialects, the upstream ones that a model may use, and the program's own ops and dialects."""
    from mlc.driver.pipeline.registry import make_context

    context = make_context(upstream=("builtin", "func", "arith", "math", "scf"))
    context.load_registered_dialect("builtin")
    return context


def _check_signature(model: Model) -> None:
    """UserError for inputs and outputs that are no tensors of graph ops, or have a name twice."""
    from xdsl.utils.exceptions import VerifyException

    from mlc.dialects.graph import shape_of
    from mlc.dialects.graph.types import dtype_name, tensor_type

    types = model.main.function_type
    for kind, names, held in (("input", model.inputs, types.inputs), ("output", model.outputs, types.outputs)):
        for name, type in zip(names, held, strict=True):
            if names.count(name) > 1:
                raise UserError(f"expected each {kind} to have a name of its own, but got '{name}' twice", model.main)
            try:
                shape_of(type)
                dtype_name(tensor_type(type).element_type)
            except VerifyException as error:
                raise UserError(f"{kind} '{name}': {error}", model.main) from error


def _check_params(model: Model, path: Path) -> None:
    from mlc.dialects.graph import ParamOp, static_shape
    from mlc.dialects.graph.types import dtype_name

    for op in model.module.walk():
        if isinstance(op, ParamOp):
            if op.entry not in model.weights:
                raise UserError(f"{path}: expected a weight '{op.entry}' in {path.with_suffix('.safetensors')}")
            entry = model.weights.entry(op.entry)
            if entry.shape != static_shape(op.type) or entry.dtype.name != dtype_name(op.type.element_type):
                raise UserError(
                    f"{path}: expected weight '{op.entry}' of type {op.type}, but the file has "
                    f"{entry.dtype.name} {entry.shape}"
                )
