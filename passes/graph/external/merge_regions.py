"""graph-merge-regions: neighbouring matches of one external compiler become one region, where that makes no cycle."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Attribute, Block, Operation
from xdsl.passes import ModulePass

from mlc.dialects.attributes import OFFLOAD_COMPILER, OFFLOAD_MATCH, OFFLOAD_REGION
from mlc.passes.graph.external.annotate.compilers import compiler_of
from mlc.passes.rewriting import functions, outer_blocks


class Regions:
    """The regions of a block's ops, and which reads from which; an op in no region is one of its own."""

    def __init__(self, block: Block) -> None:
        self.ops = list(block.ops)
        self.region: dict[Operation, int] = {}
        matches: dict[Attribute, int] = {}
        for k, op in enumerate(self.ops):
            match = op.attributes.get(OFFLOAD_MATCH)
            self.region[op] = k if match is None else matches.setdefault(match, k)
        self.readers: dict[int, set[int]] = {}
        for op in self.ops:
            for reader in self._readers(op, block):
                if self.region[reader] != self.region[op]:
                    self.readers.setdefault(self.region[op], set()).add(self.region[reader])

    def _readers(self, op: Operation, block: Block) -> set[Operation]:
        """The ops of the block that read a result of an op, themselves or in a region of theirs."""
        found = {block.find_ancestor_op_in_block(use.operation) for r in op.results for use in r.uses}
        return {reader for reader in found if reader is not None}

    def merge_all(self) -> None:
        """Merge each region with those of its compiler that read from it, until nothing more merges."""
        compiler = {self.region[op]: _compiler(op) for op in self.ops}
        changed = True
        while changed:
            changed = False
            for first in sorted(self.readers):
                for second in sorted(self.readers.get(first, ())):
                    same = compiler[first] is not None and compiler[first] == compiler[second]
                    if same and second in self.readers.get(first, ()) and not self.is_reached_around(first, second):
                        self.merge(first, second)
                        changed = True

    def is_reached_around(self, first: int, second: int) -> bool:
        """Whether `second` depends on `first` through another region too: merging them would make a cycle."""
        seen: set[int] = set()
        todo = [r for r in self.readers.get(first, ()) if r != second]
        while todo:
            region = todo.pop()
            if region == second:
                return True
            if region not in seen:
                seen.add(region)
                todo += self.readers.get(region, ())
        return False

    def merge(self, first: int, second: int) -> None:
        """Put the ops of the second region into the first."""
        for op in self.ops:
            if self.region[op] == second:
                self.region[op] = first
        self.readers.setdefault(first, set()).update(self.readers.pop(second, ()))
        for readers in self.readers.values():
            if second in readers:
                readers.remove(second)
                readers.add(first)
        self.readers[first].discard(first)


def _compiler(op: Operation) -> str | None:
    """The compiler that takes over an op, if it merges regions."""
    found = op.attributes.get(OFFLOAD_COMPILER)
    return found.data if isinstance(found, StringAttr) and compiler_of(found.data).merge else None


class MergeRegionsPass(ModulePass):
    """
    Number the regions that external compilers take over: matches of one compiler that read from each other share one.

    Two matches stay apart if the second also depends on the first through an op of neither: as one function they would
    have to wait for that op, which waits for them (TVM's MergeCompilerRegions).
    """

    name = "graph-merge-regions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        first = 0
        for function in functions(op):
            for block in outer_blocks(function):
                if not any(OFFLOAD_MATCH in inner.attributes for inner in block.ops):
                    continue
                regions = Regions(block)
                regions.merge_all()
                for inner in regions.ops:
                    if OFFLOAD_MATCH in inner.attributes:
                        inner.attributes[OFFLOAD_REGION] = IntegerAttr(first + regions.region[inner], i64)
                first += len(regions.ops)
