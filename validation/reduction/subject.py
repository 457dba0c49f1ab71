"""What is reduced: a module, its weights, and the arrays on which its entry function runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from typing import Any

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.printer import Printer

from mlc.dialects import loop, te
from mlc.dialects.graph import ParamOp
from mlc.dialects.graph.store import attach_store
from mlc.interp.graph import Interpreter
from mlc.support.weights import WeightStore

FUNCTIONS = (FuncOp, te.FuncOp, loop.FuncOp)
_NUMBER = re.compile(r"\d+")
_STRUCTURE = ("builtin.module", "func.return", "graph.yield", "te.yield", "te.return", "loop.yield")


@dataclass
class Subject:
    """
    A module with its weights; no edit changes a subject, each makes another one.

    `inputs` are arrays for the arguments of the entry function, or None where it runs on random ones.
    """

    module: ModuleOp
    weights: WeightStore | None = None
    inputs: list[Any] | None = None
    entry: str = "main"

    def copy(self) -> Subject:
        """A copy whose module, store and list of inputs may be changed; arrays are shared."""
        module, store = self.module.clone(), None
        if self.weights is not None:
            store = WeightStore()
            for name in self.weights:
                store.add(name, self.weights.array(name))
            attach_store(module, store)
        return Subject(module, store, None if self.inputs is None else list(self.inputs), self.entry)

    @cached_property
    def text(self) -> str:
        """The module's text, as a file holds it."""
        return text_of_module(self.module)

    @cached_property
    def size(self) -> tuple[int, int, int]:
        """What gets smaller: operations, the sum of all numbers in the text (sizes, attributes), characters."""
        numbers = sum(min(int(digits), 1 << 40) for digits in _NUMBER.findall(self.text))
        return count_operations(self.module), numbers, len(self.text)

    @property
    def entry_function(self) -> Operation | None:
        """The function of the entry's name, else the only function; None where there are several."""
        found = list(functions_of(self.module))
        named = [op for op in found if name_of(op) == self.entry]
        return named[0] if named else found[0] if len(found) == 1 else None

    def used_weights(self) -> WeightStore | None:
        """The weights that the module names."""
        if self.weights is None:
            return None
        store = WeightStore()
        for op in self.module.walk():
            if isinstance(op, ParamOp) and op.entry in self.weights:
                store.add(op.entry, self.weights.array(op.entry))
        return store

    def recorded(self) -> dict[int, Any]:
        """The first results of the entry's ops by their index in `module.walk()`, where it can be interpreted."""
        function, found = self.entry_function, dict[Operation, Any]()
        if self.inputs is None or not isinstance(function, FuncOp):
            return {}

        class Recorder(Interpreter):
            """Keeps all values."""

            def _run_op(self, op: Operation, operands: list[Any]) -> Any:
                results = super()._run_op(op, operands)
                found[op] = results
                return results

        try:
            Recorder(self.weights).run(function, self.inputs)
        except Exception:  # then arguments get no arrays, and the edits that need them are not tried
            return {}
        ops = enumerate(self.module.walk())
        return {index: found[op][0] for index, op in ops if op in found and op.parent is function.body.block}


def functions_of(module: ModuleOp) -> Iterator[Operation]:
    """The functions of the graph, te and loop levels that have a body."""
    for op in module.body.block.ops:
        if isinstance(op, FUNCTIONS) and op.regions[0].blocks:
            yield op


def name_of(op: Operation) -> str:
    """The symbol's name of a function or schedule; empty for other ops."""
    name = op.properties.get("sym_name", op.attributes.get("sym_name"))
    return name.data if isinstance(name, StringAttr) else ""


def count_operations(module: ModuleOp) -> int:
    """The operations of a module apart from functions, terminators and the module itself."""
    return sum(1 for op in module.walk() if op.name not in _STRUCTURE and not isinstance(op, FUNCTIONS))


def text_of_module(module: ModuleOp) -> str:
    """The functions of a module as text, without `builtin.module` around them where it says nothing."""
    stream = StringIO()
    printer = Printer(stream)
    if module.attributes:
        printer.print_op(module)
        return stream.getvalue() + "\n"
    for op in module.body.block.ops:
        printer.print_op(op)
        stream.write("\n")
    return stream.getvalue()
