"""
The directives of schedules as rewrites of loop IR: `DIRECTIVES` maps each sched op to the function that applies it.

A function gets the kernel and the op, checks that the directive is legal (`legality`), and rewrites.
"""

from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation

from mlc.dialects import sched
from mlc.passes.loop.directives.compute_at import compute_at, reverse_compute_at
from mlc.passes.loop.directives.find import find_block, find_child, find_knob, find_loops
from mlc.passes.loop.directives.inline import compute_inline
from mlc.passes.loop.directives.kernel import Kernel
from mlc.passes.loop.directives.order import bind, parallel, pragma, reorder, unroll, vectorize
from mlc.passes.loop.directives.reduction import decompose_reduction, rfactor
from mlc.passes.loop.directives.split import fuse, peel, split, tile
from mlc.passes.loop.directives.storage import (
    cache_read,
    cache_write,
    set_scope,
    storage_align,
    transform_layout,
)
from mlc.passes.loop.directives.tensorize import tensorize

Directive = Callable[[Kernel, Any], None]
"""Applies a directive to a kernel: each takes the sched op of the class that it is listed under, hence `Any`."""

# Ops that give handles or knob values; they do not change the IR.
FINDING: dict[type[Operation], Directive] = {
    sched.BlockOp: find_block,
    sched.LoopsOp: find_loops,
    sched.ChildOp: find_child,
    sched.KnobOp: find_knob,
}

DIRECTIVES: dict[type[Operation], Directive] = {
    **FINDING,
    sched.SplitOp: split,
    sched.TileOp: tile,
    sched.FuseOp: fuse,
    sched.ReorderOp: reorder,
    sched.PeelOp: peel,
    sched.ParallelOp: parallel,
    sched.VectorizeOp: vectorize,
    sched.UnrollOp: unroll,
    sched.BindOp: bind,
    sched.PragmaOp: pragma,
    sched.TensorizeOp: tensorize,
    sched.ComputeAtOp: compute_at,
    sched.ReverseComputeAtOp: reverse_compute_at,
    sched.ComputeInlineOp: compute_inline,
    sched.CacheReadOp: cache_read,
    sched.CacheWriteOp: cache_write,
    sched.RfactorOp: rfactor,
    sched.SetScopeOp: set_scope,
    sched.StorageAlignOp: storage_align,
    sched.DecomposeReductionOp: decompose_reduction,
    sched.TransformLayoutOp: transform_layout,
}
