"""A model: a graph-level module and its weights; `mlc.load` makes one from a file."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import isroutine
from io import StringIO
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.printer import Printer
from xdsl.traits import SymbolTable
from xdsl.utils.exceptions import DiagnosticException, VerifyException
from xdsl.utils.lexer import Input

from mlc.driver.errors import UserError
from mlc.driver.files import read_file
from mlc.driver.weights import WeightStore
from mlc.passes.limits import limits

if TYPE_CHECKING:
    from mlc.driver.edit import Editor

COUNTED = "mlc.counted"
"""The attribute of @main that says which outputs are as long as others say."""
NAME = "graph.name"
"""The attribute on arguments and results of @main that holds the model's own name for them."""


@dataclass
class Model:
    """What is compiled: `module` has a function @main, whose `graph.param`s `weights` holds."""

    module: ModuleOp
    weights: WeightStore

    @property
    def main(self) -> FuncOp:
        """The entry function."""
        main = SymbolTable.lookup_symbol(self.module, "main")
        if not isinstance(main, FuncOp):
            raise UserError("expected a function @main in the module, but found none")
        return main

    @property
    def inputs(self) -> tuple[str, ...]:
        """The inputs' names, in order."""
        return _names(self.main.arg_attrs, len(self.main.function_type.inputs), "input")

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs' names, in order."""
        return _names(self.main.res_attrs, len(self.main.function_type.outputs), "output")

    def save(self, path: str | Path) -> None:
        """Write `path` (.mlir) and, beside it, the weights as .safetensors."""
        path = Path(path)
        stream = StringIO()
        Printer(stream, print_debuginfo=True).print_op(self.module)
        try:
            path.write_text(stream.getvalue() + "\n")
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}") from error
        if len(self.weights):
            self.weights.save(path.with_suffix(".safetensors"))

    def edit(self) -> Editor:
        """What changes the graph: `with model.edit() as graph: ...` (driver/edit.py)."""
        from mlc.driver.edit import Editor

        return Editor(self)

    def bind(self, values: Mapping[str, Any]) -> None:
        """Make weights of the inputs of these names: `model.bind({"mask": array})`."""
        from mlc.driver.edit import bind

        bind(self, values)

    def add_weight(self, array: Any, name: str = "edited") -> str:
        """Put an array among the weights, under this name or one like it that is free; the name."""
        unique, n = name, 1
        while unique in self.weights:
            n += 1
            unique = f"{name}.{n}"
        return self.weights.add(unique, array)


def _names(attrs: ArrayAttr[DictionaryAttr] | None, count: int, prefix: str) -> tuple[str, ...]:
    records = [a.data for a in attrs.data] if attrs is not None else [{}] * count
    names = [record.get(NAME) for record in records]
    return tuple(n.data if isinstance(n, StringAttr) else f"{prefix}{i}" for i, n in enumerate(names))


def counted_attribute(counts: Mapping[str, tuple[int, int]]) -> dict[str, Attribute]:
    """The attribute of @main that says of which outputs the last ones are counts, in order: [output, axis] each."""
    pairs = [ArrayAttr([IntegerAttr(n, i64) for n in pair]) for pair in counts.values()]
    return {COUNTED: ArrayAttr(pairs)} if pairs else {}


def counted_outputs(main: FuncOp) -> list[list[int]]:
    """[output, axis, output that is its count] for each output that has one."""
    pairs: Any = main.attributes.get(COUNTED, ArrayAttr([]))
    first = len(main.function_type.outputs) - len(pairs.data)
    return [[*(n.value.data for n in pair.data), first + k] for k, pair in enumerate(pairs.data)]


def name_attrs(names: Sequence[str]) -> ArrayAttr[DictionaryAttr]:
    """The argument or result attributes that hold these names."""
    return ArrayAttr([DictionaryAttr({NAME: StringAttr(name)}) for name in names])


def load(
    source: Any,
    shapes: Mapping[str, Sequence[Any]] | None = None,
    symbols: Mapping[str, Sequence[int]] | None = None,
) -> Model:
    """
    A model from an .onnx file, an onnx.ModelProto, an .mlir file and its .safetensors, a .pt2 file of
    torch.export.save, a torch.export program, or an object that has one as its `exported_program` or `program`.

    `shapes` gives input shapes that the source leaves open: `{"x": (1, 3, 48, 320)}`. Sizes that stay open, or given
    as names, `{"x": (1, 3, "H", "W")}`, are symbols: the compiled model takes inputs of any. `symbols` says which:
    `{"H": (32, 2048, 32)}`, the lowest, the highest, and what divides them.
    """
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


def _is_of_torch(source: Any) -> bool:
    return any(base.__module__.partition(".")[0] == "torch" for base in type(source).__mro__)


def _exported_program(source: Any) -> Any:
    """The torch.export program that an object is, or has as its `exported_program` or `program`; None for others."""
    torch_export = sys.modules.get("torch.export")
    if torch_export is None or isinstance(source, torch_export.ExportedProgram):
        return None if torch_export is None else source
    if isinstance(source, sys.modules["torch"].nn.Module):
        return None  # whose attributes are its own affair
    for name in ("exported_program", "program"):
        held = getattr(source, name, None)
        try:
            held = held() if isroutine(held) else held
        except TypeError as error:
            raise UserError(f"expected {type(source).__name__}.{name}() to need no arguments: {error}") from error
        if isinstance(held, torch_export.ExportedProgram):
            return held
    return None


def _load_pt2(path: Path, shapes: Mapping[str, Sequence[int]] | None) -> Model:
    try:
        import torch.export  # noqa: F401
    except ImportError as error:
        raise UserError(f"{path}: expected torch to be installed, which reads .pt2 files: {error}") from error
    from mlc.frontends.torch import import_file

    return import_file(path, shapes)


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


def parse_module(text: str, name: str = "<text>") -> ModuleOp:
    """Parse and verify a module; what is wrong is a UserError with its place."""
    from mlc.tools.opt.source import InputError, parse

    try:
        module, _ = parse(model_context(), Input(text, name))
        module.verify()
    except InputError as error:
        raise UserError(f"{error.diagnostic.place}: {error.diagnostic.message}") from error
    except (DiagnosticException, VerifyException) as error:
        raise UserError(f"{name}: {error}") from error
    except RecursionError as error:
        raise UserError(f"{name}: nested too deeply") from error
    return module


def model_context() -> Context:
    """A context with mlc's dialects and the upstream ones that a model may use; loaded when used."""
    from mlc.dialects import DIALECTS

    upstream = {"builtin": "Builtin", "func": "Func", "arith": "Arith", "math": "Math", "scf": "Scf"}
    places = {**DIALECTS, **{name: f"xdsl.dialects.{name}:{symbol}" for name, symbol in upstream.items()}}
    context = Context()
    for name, place in places.items():
        context.register_dialect(name, lambda place=place: _imported(place))
    context.load_registered_dialect("builtin")
    return context


def _imported(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


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
