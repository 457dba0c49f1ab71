"""graph-inline: calls of functions that are flagged `graph.inline` become the functions' bodies."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp as FuncCallOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.graph import CallOp
from mlc.dialects.graph.ops.structure import bound_symbols
from mlc.dialects.graph.symbols import retype
from mlc.dialects.graph.types import with_symbols
from mlc.passes.rewriting import functions
from mlc.support.errors import fail

INLINE = "graph.inline"
"""The attribute of a function whose calls are replaced by its body."""


def inline_call(call: Operation, callee: FuncOp) -> list[Operation]:
    """Insert a copy of a function's body in place of a call; returns the copied ops."""
    block = call.parent
    assert block is not None
    body = callee.body.block
    values: dict[SSAValue, SSAValue] = dict(zip(body.args, call.operands, strict=True))
    sizes = bound_symbols(call)
    made: list[Operation] = []
    for op in body.ops:
        if isinstance(op, ReturnOp):
            for old, new in zip(call.results, op.operands, strict=True):
                values[new].name_hint = values[new].name_hint or old.name_hint
                old.replace_all_uses_with(values[new])
            break
        copy = op.clone(values)
        copy.location = op.location
        for result in copy.results if sizes else ():
            retype(result, with_symbols(result.type, sizes))
        block.insert_op_before(copy, call)
        made.append(copy)
    call.detach()
    call.erase()
    return made


class Inliner:
    """One run over a module: callees first, so that each body is copied in its final form."""

    def __init__(self, module: ModuleOp) -> None:
        self.flagged = {f.sym_name.data: f for f in functions(module) if INLINE in f.attributes}
        self.done: set[FuncOp] = set()

    def expand(self, function: FuncOp, path: tuple[str, ...]) -> None:
        """Replace the calls inside a function."""
        if function in self.done:
            return
        name = function.sym_name.data
        if name in path:
            cycle = " -> ".join(f"@{n}" for n in (*path[path.index(name) :], name))
            fail(function, f"expected functions flagged {INLINE} not to call themselves, but got {cycle}")
        for op in list(function.walk()):
            if isinstance(op, CallOp | FuncCallOp) and (callee := self.flagged.get(op.callee.root_reference.data)):
                self.expand(callee, (*path, name))
                inline_call(op, callee)
        self.done.add(function)


class InlinePass(ModulePass):
    """
    Replace calls of functions flagged `graph.inline` by their bodies; graph-remove-unused-functions drops the rest.

    `%1 = graph.call @block(%0)`, `func.func private @block(%a) attributes {graph.inline} { %r = graph.relu %a .. }`
    ->  `%1 = graph.relu %0`
    """

    name = "graph-inline"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place; a flagged function that calls itself is a user error."""
        inliner = Inliner(op)
        if inliner.flagged:
            for function in list(functions(op)):
                inliner.expand(function, ())
