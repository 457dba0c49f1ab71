"""A model: a graph-level module and its weights, as every frontend gives it and `mlc.compile` takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.printer import Printer
from xdsl.traits import SymbolTable

from mlc.dialects.attributes import MAIN_COUNTED
from mlc.dialects.syntax.source_nodes import ir_text
from mlc.support.display.ir_text import IRText, Pretty
from mlc.support.errors import UserError
from mlc.support.weights import WeightStore

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mlc.frontends.common.edit import Editor

NAME = "graph.name"
"""The attribute on arguments and results of @main with their names in the model."""


@dataclass
class Model:
    """A model to compile: `module` has a function @main, `weights` the contents of its `graph.param`s."""

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
        """Write `path` (.mlir), and the weights next to it as .safetensors."""
        path = Path(path)
        stream = StringIO()
        Printer(stream, print_debuginfo=True).print_op(self.module)
        try:
            path.write_text(stream.getvalue() + "\n")
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}") from error
        if len(self.weights):
            self.weights.save(path.with_suffix(".safetensors"))

    def _repr_html_(self) -> str:
        """What a notebook shows: the module as highlighted IR, each op with its source nodes."""
        return self._shown().html()

    def _repr_pretty_(self, printer: Pretty, cycle: bool) -> None:
        self._shown().write_to(printer)

    def _shown(self) -> IRText:
        return IRText(ir_text(self.module, nodes=True))

    def edit(self) -> Editor:
        """An editor of the graph: `with model.edit() as graph: ...` (frontends/common/edit.py)."""
        from mlc.frontends.common.edit import Editor

        return Editor(self)

    def bind(self, values: Mapping[str, Any]) -> None:
        """Make weights of the inputs of these names: `model.bind({"mask": array})`."""
        from mlc.frontends.common.edit import bind

        bind(self, values)

    def add_weight(self, array: NDArray[Any], name: str = "edited") -> str:
        """Add an array to the weights, under this name or this name with a number; returns the name."""
        unique, n = name, 1
        while unique in self.weights:
            n += 1
            unique = f"{name}.{n}"
        return self.weights.add(unique, array)


def _names(attrs: ArrayAttr[DictionaryAttr] | None, count: int, prefix: str) -> tuple[str, ...]:
    records: list[Mapping[str, Attribute]] = [{}] * count if attrs is None else [a.data for a in attrs.data]
    names = [record.get(NAME) for record in records]
    return tuple(n.data if isinstance(n, StringAttr) else f"{prefix}{i}" for i, n in enumerate(names))


def counted_attribute(counts: Mapping[str, tuple[int, int]]) -> dict[str, Attribute]:
    """The attribute MAIN_COUNTED for the counts of padded outputs, in order."""
    pairs = [ArrayAttr([IntegerAttr(n, i64) for n in pair]) for pair in counts.values()]
    return {MAIN_COUNTED: ArrayAttr(pairs)} if pairs else {}


def name_attrs(names: Sequence[str]) -> ArrayAttr[DictionaryAttr]:
    """The argument or result attributes that hold these names."""
    return ArrayAttr([DictionaryAttr({NAME: StringAttr(name)}) for name in names])
