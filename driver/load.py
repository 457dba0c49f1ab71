"""`mlc.load`: a model from a file, an ONNX model in memory, or a torch.export program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlc.dialects.source import parse_module
from mlc.frontends.common.model import Model
from mlc.support.errors import UserError
from mlc.support.files import read_file
from mlc.support.limits import limits
from mlc.support.weights import WeightStore

if TYPE_CHECKING:
    pass


def load(
    source: Any,
    shapes: Mapping[str, Sequence[Any]] | None = None,
    symbols: Mapping[str, Sequence[int]] | None = None,
) -> Model:
    """
    A model from an .onnx file, an onnx.ModelProto, a torch.export program, or an .mlir file and its .safetensors.

    `shapes` gives input shapes that the source leaves open: `{"x": (1, 3, 48, 320)}`. Sizes that stay open, or given
    as names, `{"x": (1, 3, "H", "W")}`, are symbols: the compiled model takes inputs of any. `symbols` says which:
    `{"H": (32, 2048, 32)}`, the lowest, the highest, and what divides them.
    """
    if isinstance(source, Model):
        return _with_sizes(source, shapes, symbols)
    if any(base.__module__.partition(".")[0] == "torch" for base in type(source).__mro__):
        return _with_sizes(_load_torch(source, shapes), None, symbols)
    if isinstance(source, str | Path):
        path = Path(source)
        if path.suffix == ".mlir":
            return _with_sizes(load_mlir(path), shapes, symbols)
        if path.suffix != ".onnx":
            raise UserError(f"{path}: expected a file that ends in .onnx or .mlir")
        source = path
    from mlc.frontends.onnx import import_model

    return import_model(source, shapes, symbols=symbols)


def _with_sizes(
    model: Model, shapes: Mapping[str, Sequence[Any]] | None, symbols: Mapping[str, Sequence[int]] | None
) -> Model:
    """A model that says itself which sizes are open, with numbers for some of them."""
    if symbols:
        raise UserError(f"expected symbols= for an ONNX model; others say what {', '.join(symbols)} may be themselves")
    if not shapes:
        return model
    from mlc.driver.bind_sizes import with_shapes

    return with_shapes(model, shapes)


def _load_torch(source: Any, shapes: Mapping[str, Sequence[int]] | None) -> Model:
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
    try:
        text = read_file(path, limits.input_bytes).decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not a text file: {error.reason}") from error
    module = parse_module(text, str(path))
    beside = path.with_suffix(".safetensors")
    model = Model(module, WeightStore.load(beside) if beside.exists() else WeightStore())
    _check_params(model, path)
    return model


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
