"""graph-label-ops: attach a structural hash and the layouts of its ops to each function."""

from __future__ import annotations

import hashlib

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.graph import GraphOp
from mlc.passes.rewriting import functions

HASH, LAYOUTS = "graph.hash", "graph.layouts"
DIGITS = 16


class Hasher:
    """The structural hash of functions: of ops, attributes, types and operands; not of names and locations."""

    def __init__(self) -> None:
        self.texts: dict[Attribute, str] = {}

    def text(self, attribute: Attribute) -> str:
        """An attribute as text; printed once."""
        known = self.texts.get(attribute)
        if known is None:
            known = self.texts[attribute] = str(attribute)
        return known

    def hash(self, function: FuncOp) -> str:
        """16 hexadecimal digits, the same in every process and on every machine."""
        number: dict[SSAValue, int] = {}
        lines = [self.text(function.function_type)]
        for op in function.body.walk():
            block = op.parent
            if block is not None and block.args and block.args[0] not in number:
                number.update({value: len(number) + k for k, value in enumerate(block.args)})
            attrs = ",".join(f"{name}={self.text(a)}" for name, a in sorted(op.properties.items()))
            types = ",".join(self.text(result.type) for result in op.results)
            operands = ",".join(str(number[operand]) for operand in op.operands)
            lines.append(f"{op.name} {operands} {{{attrs}}} {types} {len(op.regions)}")
            for result in op.results:
                number[result] = len(number)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:DIGITS]


def layouts_of(function: FuncOp) -> list[str]:
    """The layout attributes of a function's ops, each once: `conv2d.data_layout=NCHW16c`."""
    found: dict[str, None] = {}
    for op in function.body.walk():
        if isinstance(op, GraphOp):
            for name, attribute in op.properties.items():
                if "layout" in name or name in ("src", "dst"):
                    value = attribute.data if isinstance(attribute, StringAttr) else str(attribute)
                    found[f"{op.name.removeprefix('graph.')}.{name}={value}"] = None
    return list(found)


class LabelOpsPass(ModulePass):
    """
    Attach the hash of its structure and the layouts of its ops to each function, for tools that read the program.

    `func.func private @dense(..)`  ->
    `func.func private @dense(..) attributes {graph.hash = "0a1b..", graph.layouts = ["dense.kernel_layout=OI32o"]}`

    The hash is one of text, so it does not change from run to run.
    """

    name = "graph-label-ops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        hasher = Hasher()
        for function in functions(op):
            function.attributes[HASH] = StringAttr(hasher.hash(function))
            if layouts := layouts_of(function):
                function.attributes[LAYOUTS] = ArrayAttr([StringAttr(text) for text in layouts])
