"""
The algorithms of a convolution in a kernel: the direct sum, and Winograd's with tiles of 2 x 2 or 4 x 4 outputs.

A kernel is a block of graph ops, the region of a graph.fused or the body of an outlined function, whose convolution
reads its weight from an argument. `with_algorithm` rewrites the block in place; the weight's argument gets another
type, and `WinogradWeight` says how the new weight follows from that of the direct sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from mlc.dialects.graph import Conv2dOp, Conv2dWinogradOp, shape_of, tensor
from mlc.dialects.graph.ops.winograd import ERROR_GROWTH, MATRICES
from mlc.passes.graph.select_algorithm.shapes import product_block, shape_if_eligible

DIRECT = "direct"
"""The name of the direct sum."""
TILES = {DIRECT: 0, **{f"winograd{m}": m for m in sorted(MATRICES)}}
"""The algorithms by name: the tile size m of Winograd's F(m x m, 3 x 3), 0 for the direct sum."""
NAMES = {m: name for name, m in TILES.items()}

Convolution = Conv2dOp | Conv2dWinogradOp


@dataclass(frozen=True)
class WinogradWeight:
    """Which weight Winograd's algorithm reads instead of the direct sum's, `OIHW<i>i<o>o`."""

    tile: int
    block_in: int
    block_out: int
    """The block of output channels in the product."""


@dataclass(frozen=True)
class Site:
    """A convolution that has several algorithms, in a kernel."""

    op: Convolution
    block: Block
    weight: int
    """The number of the argument that is its weight."""

    @property
    def algorithm(self) -> str:
        """The name of the algorithm that it has."""
        return NAMES[self.op.tile if isinstance(self.op, Conv2dWinogradOp) else 0]

    @property
    def channels(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The channels in and out, as (blocks, channels of a block)."""
        x, y = (shape_of(value.type) for value in (self.op.operands[0], self.op.results[0]))
        return (_int(x[1]), _int(x[4])), (_int(y[1]), _int(y[4]))


def site_of(block: Block) -> Site | None:
    """The convolution of a kernel if it has several algorithms and no other op reads its weight; None otherwise."""
    found = [op for op in block.ops if isinstance(op, Conv2dOp | Conv2dWinogradOp)]
    if len(found) != 1 or (isinstance(found[0], Conv2dOp) and shape_if_eligible(found[0]) is None):
        return None
    weight = found[0].operands[1]
    if not isinstance(weight, BlockArgument) or weight.block is not block or len(list(weight.uses)) != 1:
        return None
    return Site(found[0], block, weight.index)


def legal_algorithms(growth: float) -> list[str]:
    """The names of the algorithms whose error is within the budget, the direct sum first."""
    return [name for name, m in TILES.items() if not m or ERROR_GROWTH[m] <= growth]


def error_growth(algorithm: str) -> float:
    """By how much the error of an algorithm may exceed that of the direct sum."""
    return ERROR_GROWTH.get(TILES[algorithm], 1.0)


def weight_of(site: Site, algorithm: str, lanes: int) -> WinogradWeight | None:
    """The weight that an algorithm reads; None for the direct sum, whose weight is blocked as picture and result."""
    if not (tile := TILES[algorithm]):
        return None
    inputs, outputs = site.channels
    return WinogradWeight(tile, inputs[1], product_block(outputs, lanes, site.op.groups))


def with_algorithm(site: Site, algorithm: str, lanes: int) -> Site:
    """Rewrite a kernel's convolution to an algorithm; the site then."""
    if site.algorithm == algorithm:
        return site
    op, block, weight = site.op, site.block, weight_of(site, algorithm, lanes)
    (x, inner), (y, outer) = site.channels
    each = x // op.groups
    if weight is None:
        shape = (y, each, 3, 3, inner, outer)
    else:
        points, wide = weight.tile + 2, weight.block_out
        shape = (points, points, y * outer // wide, each, inner, wide)
    argument = block.insert_arg(tensor(shape), site.weight)
    argument.name_hint = block.args[site.weight + 1].name_hint
    new = _made(op, argument, weight, (inner, outer))
    block.insert_op_before(new, op)
    new.results[0].name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(new.results[0])
    op.detach()
    op.erase()
    block.erase_arg(block.args[site.weight + 1])
    return Site(new, block, site.weight)


def _made(op: Convolution, weight: SSAValue, form: WinogradWeight | None, blocks: tuple[int, int]) -> Convolution:
    """The convolution by another algorithm."""
    inner, outer = blocks
    if form is None:
        data, kernel = f"NCHW{inner}c", f"OIHW{inner}i{outer}o"
        return Conv2dOp.make(
            op.operands[0],
            weight,
            padding=tuple(op.padding),
            groups=op.groups,
            data_layout=data,
            kernel_layout=kernel,
            location=op.location,
        )
    return Conv2dWinogradOp.make(
        op.operands[0],
        weight,
        tile=form.tile,
        block=outer if form.block_out != outer else 0,
        padding=tuple(op.padding),
        groups=op.groups,
        location=op.location,
    )


def function_with_algorithm(function: FuncOp, algorithm: str, lanes: int) -> FuncOp:
    """A copy of an outlined kernel, with its convolution by another algorithm."""
    copy = function.clone()
    site = site_of(copy.body.block)
    assert site is not None
    with_algorithm(site, algorithm, lanes)
    copy.update_function_type()
    return copy


def question(site: Site) -> str:
    """
    What the record of a kernel's algorithm is found by: the same text whichever algorithm the kernel has.

    Inputs and constants count by their types alone: outlining makes inputs of some constants.
    """
    block, (inputs, outputs) = site.block, site.channels
    number: dict[SSAValue, str] = {}

    def named(value: SSAValue) -> str:
        if value not in number:
            type_ = f"weight {inputs} {outputs}" if value is block.args[site.weight] else str(value.type)
            number[value] = f"in{len(number)}:{type_}"
        return number[value]

    lines = ["algorithm"]
    for op in block.ops:
        if not op.operands:
            continue
        lines.append(f"{_meaning(site, op)} {[named(value) for value in op.operands]}")
        for result in op.results:
            number[result] = f"%{len(number)}:{result.type}"
    return "\n".join(lines)


def question_hash(site: Site) -> str:
    """The hexadecimal sha256 of the question."""
    return sha256(question(site).encode()).hexdigest()


def _meaning(site: Site, op: Operation) -> str:
    """An op's name and attributes; the convolution's whatever its algorithm, and one name for both terminators."""
    if op is site.block.last_op:
        return "result"
    if op is site.op:
        groups = f" of {site.op.groups} groups" if site.op.groups > 1 else ""
        return f"conv2d 3x3 {list(site.op.padding)}{groups}"
    return f"{op.name} {[f'{name}={attribute}' for name, attribute in sorted(op.properties.items())]}"


def _int(size: object) -> int:
    assert isinstance(size, int)
    return size
