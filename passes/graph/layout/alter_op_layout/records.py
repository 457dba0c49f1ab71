"""
Blocks on record: which blocks the graph tuner found best for the convolutions and dense layers of a function.

A record's question is the function's text in front of this pass; its values are

    strategy = "layouts", in_blocks = (16, 8, ..), out_blocks = (16, 32, ..)

with a number for each site in order: channels in a block of the picture (0 for a dense layer) and of the result (a
depthwise convolution has one block), or the packed width of a dense layer's weight. 0 leaves it to the pass. The
weights are packed in these blocks by transforms of constants, which graph-fold-constant computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from mlc.dialects.graph import Conv2dOp, DenseOp, shape_of
from mlc.passes.graph.shared.constants import element_of, is_constant
from mlc.passes.rewriting import outer_blocks
from mlc.support.errors import warn
from mlc.support.records import KnobValues, in_force
from mlc.targets.description import describe
from mlc.targets.target import Target

LAYOUTS = "layouts"
"""The name in the place of a strategy."""


@dataclass(frozen=True)
class SiteBlocks:
    """The blocks of one site; 0 where the pass chooses."""

    inner: int = 0
    outer: int = 0


@dataclass
class BlocksOnRecord:
    """The blocks of the sites of a function, by op."""

    of: Mapping[Operation, SiteBlocks] = field(default_factory=dict[Operation, SiteBlocks])

    def at(self, op: Operation) -> SiteBlocks:
        """The blocks of an op; none where there is no record."""
        return self.of.get(op, SiteBlocks())


def sites_of(function: FuncOp) -> list[Conv2dOp | DenseOp]:
    """The ops whose blocks a record says: plain and depthwise convolutions, dense layers; f32, constant weights."""
    return [op for block in outer_blocks(function) for op in block.ops if _is_site(op)]  # pyright: ignore[reportReturnType] `_is_site` says so


def _is_site(op: Operation) -> bool:
    if not isinstance(op, Conv2dOp | DenseOp) or not is_constant(op.operands[1]):
        return False
    if any(str(element_of(value)) != "f32" for value in op.operands):
        return False
    if isinstance(op, DenseOp):
        return op.kernel_layout == "OI"
    picture, weight = (shape_of(operand.type) for operand in op.operands)
    dense_or_depthwise = op.groups == 1 or (weight[1] == 1 and op.groups == picture[1] == weight[0])
    plain = op.data_layout == "NCHW" and op.kernel_layout == "OIHW"
    return plain and dense_or_depthwise and all(isinstance(size, int) for size in (picture[1], *weight[:2]))


def layouts_hash(function: FuncOp) -> str:
    """What the record of a function's layouts is found by."""
    return sha256(f"{LAYOUTS}\n{function}".encode()).hexdigest()


def blocks_on_record(function: FuncOp, target: str, threads: int) -> BlocksOnRecord:
    """The blocks that the records in force hold for a function; a record that does not fit is ignored, with a note."""
    provider = in_force()
    sites = [] if provider is None else sites_of(function)
    if provider is None or not sites:
        return BlocksOnRecord()
    values = provider.best(layouts_hash(function), describe(Target.parse(target)), threads)
    if values is None:
        return BlocksOnRecord()
    lists = _lists(values, len(sites))
    if lists is None:
        warn(None, f"the record of the layouts of @{function.sym_name.data} is ignored: it has other sites; tune again")
        return BlocksOnRecord()
    return BlocksOnRecord({op: SiteBlocks(*pair) for op, pair in zip(sites, zip(*lists, strict=True), strict=True)})


def _lists(values: KnobValues, count: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The two lists of a record, if each has a size for each site."""
    inner, outer = values.get("in_blocks"), values.get("out_blocks")
    if not isinstance(inner, tuple) or not isinstance(outer, tuple) or {len(inner), len(outer)} != {count}:
        return None
    return None if any(size < 0 for size in (*inner, *outer)) else (inner, outer)
