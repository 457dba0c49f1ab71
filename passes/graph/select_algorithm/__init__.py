"""graph-select-algorithm: convolutions that Winograd's transforms make cheaper, within an accuracy budget."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.graph import ConstantOp, Conv2dOp, FusedOp, GraphOp, LayoutTransformOp, WinogradWeightOp, shape_of
from mlc.dialects.graph.ops.winograd import MATRICES
from mlc.passes.graph.fusion.defuse_ops import defuse
from mlc.passes.graph.fusion.fuse_ops import fuse, label_of
from mlc.passes.graph.select_algorithm.forms import (
    DIRECT,
    NAMES,
    Site,
    WinogradWeight,
    site_of,
    weight_of,
    with_algorithm,
)
from mlc.passes.graph.select_algorithm.records import algorithm_on_record
from mlc.passes.graph.select_algorithm.shapes import Shape, shape_if_eligible
from mlc.passes.graph.shared.constants import is_constant
from mlc.passes.graph.simplify.fold_constant import Folder
from mlc.passes.rewriting import functions, outer_blocks
from mlc.support.errors import fail
from mlc.targets.target import Target


def analytic_algorithm(site: Site, target: Target, threads: int, growth: float) -> str:
    """The name of the algorithm that the cost model finds fastest within the budget."""
    assert isinstance(site.op, Conv2dOp)
    shape = shape_if_eligible(site.op)
    assert shape is not None
    return NAMES[shape.choose(target, threads, growth)]


def constant_sites(module: ModuleOp) -> Iterator[tuple[FusedOp, Site, bool]]:
    """
    The direct convolutions of constant weights that have other algorithms; one in no region gets its own.

    The last value says whether the region is new.
    """
    blocks = [block for function in functions(module) for block in outer_blocks(function)]
    for op in [op for block in blocks for op in block.ops]:
        alone = isinstance(op, Conv2dOp) and shape_if_eligible(op) is not None and is_constant(op.operands[1])
        if alone:
            op = fuse([op])
        if not isinstance(op, FusedOp):
            continue
        site = site_of(op.body.block)
        if site is not None and isinstance(site.op, Conv2dOp) and is_constant(op.operands[site.weight]):
            yield op, site, alone
        elif alone:
            defuse(op)


@dataclass
class Selector:
    """One run over a module."""

    target: Target
    threads: int
    growth: float
    weights: dict[tuple[SSAValue, WinogradWeight], SSAValue] = field(
        default_factory=dict["tuple[SSAValue, WinogradWeight]", SSAValue]
    )
    """(weight of the direct sum, form) -> transformed weight: convolutions that share a weight share its transform."""

    def run(self, module: ModuleOp) -> None:
        """Choose for every site, then fold the transforms of weights."""
        for fused, site, alone in list(constant_sites(module)):
            name = algorithm_on_record(site, self.target, self.threads, self.growth)
            name = name or analytic_algorithm(site, self.target, self.threads, self.growth)
            if name != DIRECT:
                self.rewrite(fused, site, name)
            elif alone:
                defuse(fused)
        if self.weights:
            Folder(module).run()

    def rewrite(self, fused: FusedOp, site: Site, algorithm: str) -> None:
        """Give a region's convolution an algorithm, and the region the weight that it reads."""
        lanes = self.target.lanes("f32")
        form = weight_of(site, algorithm, lanes)
        if form is None:
            return
        outer = fused.operands[site.weight]
        if (outer, form) not in self.weights:
            self.weights[outer, form] = _transformed(fused, site, outer, form)
        with_algorithm(site, algorithm, lanes)
        fused.operands[site.weight] = self.weights[outer, form]
        fused.label = StringAttr(label_of(list(fused.body.block.ops)[:-1]))


def _transformed(fused: FusedOp, site: Site, weight: SSAValue, form: WinogradWeight) -> SSAValue:
    """`%w : OIHW16i16o -> winograd_weight (layout_transform %w), G`, in front of a region."""
    import numpy as np

    block = fused.parent
    assert block is not None
    assert isinstance(site.op, Conv2dOp)
    made: list[GraphOp] = []
    owner = weight.owner
    (x, inner), (y, outer) = site.channels
    plain_shape = (y * outer, x * inner // site.op.groups, 3, 3)
    if isinstance(owner, LayoutTransformOp) and shape_of(owner.operands[0].type) == plain_shape:
        plain = owner.operands[0]
    else:
        made.append(LayoutTransformOp.make(weight, src=site.op.kernel_layout, dst="OIHW"))
        plain = made[-1].results[0]
    g = ConstantOp.make(np.array(MATRICES[form.tile][1], np.float32))
    u = WinogradWeightOp.make(plain, g.results[0], block_in=form.block_in, block_out=form.block_out)
    for op in (*made, g, u):
        op.location = site.op.location
        block.insert_op_before(op, fused)
    return u.results[0]


@dataclass(frozen=True)
class SelectAlgorithmPass(ModulePass):
    """
    Blocked 3 x 3 convolutions of stride 1 become Winograd's F(4x4, 3x3) or F(2x2, 3x3) where that is faster.

    `graph.conv2d %x, %w {kernel_layout = "OIHW16i16o"}` -> `graph.conv2d_winograd %x, %u`

    It runs on fused regions, whose convolutions read constant weights. Records in force that know a region say its
    algorithm (`mlc.records`, `--records`), else the cost model (targets/cost/winograd.py) does: it reads the caches and
    vectors of `target`, and counts multiplications, transforms and bytes for `threads`. `error-growth` is the accuracy
    budget of both: by how much the error may exceed that of the direct sum (F(2x2) about 2, F(4x4) about 12; 0 keeps
    every convolution direct).
    """

    name = "graph-select-algorithm"

    error_growth: float = 16.0
    target: str = "native"
    threads: int = 1

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        if self.error_growth < 0:
            fail(op, f"expected an error-growth of at least 0, but got {self.error_growth}")
        Selector(Target.parse(self.target), self.threads, self.error_growth).run(op)


__all__ = ["SelectAlgorithmPass", "Selector", "Shape", "analytic_algorithm", "constant_sites"]
