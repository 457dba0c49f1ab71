"""
The description of @main for model.json where it branches and loops: a program of items.

    item ::= ["call", node] | ["copy", value, value, number] | ["fill", value, number] | ["store", value, number]
           | ["if", number, [item, ..], [item, ..]] | ["for", loop, number, [item, ..]]
           | ["while", loop, number, [item, ..]]
    number ::= integer | {"size": size} | {"loop": loop} | {"load": value} | [operation, number, number]

`{"loop": 0}` is the number of the iteration of loop 0; runtime/program.py runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, Region, SSAValue

from mlc.dialects import runtime
from mlc.lowering.graph_to_main.convert import bytes_of
from mlc.lowering.graph_to_main.sizes import SizeReader

_NAMES: dict[type[Operation], str] = {
    arith.AddiOp: "+", arith.SubiOp: "-", arith.MuliOp: "*", arith.MinSIOp: "min", arith.MaxSIOp: "max",
    arith.AndIOp: "and", arith.CmpiOp: "<",
}  # fmt: skip


class ProgramDescription:
    """Builds the items of @main; `read` reads symbolic sizes, `encoded` makes JSON of them."""

    def __init__(self, read: SizeReader, encoded: Callable[[Any], Any]) -> None:
        self.read, self.encoded = read, encoded
        self.loops: dict[Operation, int] = {}

    def number(self, value: SSAValue, numbered: Callable[[SSAValue], int]) -> Any:
        """The JSON of a number that @main computes."""
        size = self.read(value)
        if size is not None:
            return size if isinstance(size, int) else {"size": self.encoded(size)}
        owner = value.owner
        if isinstance(owner, Block):
            around = owner.parent_op()
            assert isinstance(around, scf.ForOp | scf.WhileOp)
            return {"loop": self.loops.setdefault(around, len(self.loops))}
        if isinstance(owner, memref.LoadOp):
            return {"load": numbered(owner.memref)}
        if isinstance(owner, arith.IndexCastOp):
            return self.number(owner.input, numbered)
        if isinstance(owner, scf.WhileOp):
            return {"loop": self.loops.setdefault(owner, len(self.loops))}
        x, y = (self.number(v, numbered) for v in owner.operands)
        return [_NAMES[type(owner)], x, y]

    def rows(self, value: SSAValue, numbered: Callable[[SSAValue], int]) -> dict[str, Any]:
        """For a row of a stack of values: its index and the bytes of a row, outermost last."""
        found: list[Any] = []
        while isinstance(op := value.owner, memref.ReinterpretCastOp | runtime.PartOp | runtime.RowOp):
            if isinstance(op, runtime.RowOp):
                found.append([self.number(op.index, numbered), self._bytes(op.result, op.bytes, numbered)])
            value = op.source
        return {"rows": found} if found else {}

    def items(self, block: Block, calls: Mapping[Operation, int], numbered: Callable[[SSAValue], int]) -> list[Any]:
        """The items of a block."""

        def inner(region: Region) -> list[Any]:
            return self.items(region.block, calls, numbered) if region.blocks else []

        found: list[Any] = []
        for op in block.ops:
            if isinstance(op, runtime.CallOp):
                found.append(["call", calls[op]])
            elif isinstance(op, memref.CopyOp | runtime.CopyOp):
                size = self._bytes(op.source, getattr(op, "bytes", None), numbered)
                found.append(["copy", numbered(op.source), numbered(op.destination), size])
            elif isinstance(op, runtime.FillOp):
                found.append(["fill", numbered(op.target), self._bytes(op.target, op.bytes, numbered)])
            elif isinstance(op, memref.StoreOp):
                found.append(["store", numbered(op.memref), self.number(op.value, numbered)])
            elif isinstance(op, scf.IfOp):
                ways = inner(op.true_region), inner(op.false_region)
                found.append(["if", self.number(op.cond, numbered), *ways])
            elif isinstance(op, scf.ForOp):
                number = self.loops.setdefault(op, len(self.loops))
                found.append(["for", number, self.number(op.ub, numbered), inner(op.body)])
            elif isinstance(op, scf.WhileOp):
                number = self.loops.setdefault(op, len(self.loops))
                test = op.before_region.block.last_op
                assert isinstance(test, scf.ConditionOp)
                found.append(["while", number, self.number(test.operands[0], numbered), inner(op.after_region)])
        return found

    def _bytes(self, buffer: SSAValue, given: SSAValue | None, numbered: Callable[[SSAValue], int]) -> Any:
        assert isinstance(buffer.type, MemRefType)
        return bytes_of(buffer.type) if given is None else self.number(given, numbered)


def program_of(
    main: func.FuncOp, writer: ProgramDescription, calls: Mapping[Operation, int], numbered: Callable[[SSAValue], int]
) -> dict[str, Any]:
    """The program of @main, if it branches or loops."""
    if not any(op.regions for op in main.body.block.ops):
        return {"control_flow": False}
    return {"control_flow": True, "program": writer.items(main.body.block, calls, numbered)}


__all__ = ["ProgramDescription", "program_of"]
