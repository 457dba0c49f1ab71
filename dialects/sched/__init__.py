"""
The sched dialect: schedules as IR; each directive transforms the loops of a kernel.

    schedule  ::= `sched.schedule` @kernel `{` directive* `}`
    intrinsic ::= `sched.intrinsic` "name" `requires` ["feature",*] `{` loop.func @means, loop.func @emits `}`
    find      ::= %b `=` `sched.block` "name"                %l,* `=` `sched.loops` %b (`under` %l)? `:` count
                | %c `=` `sched.child` %l `at` n
    choose    ::= %t `=` `sched.knob` "name" `[` value,* `]` `default` value (`value` value)?
                  value ::= n | "name" | `[` n,* `]`
    loops     ::= %l,* `=` `sched.split` %l factors          %l,* `=` `sched.tile` %l,* factors
                | %l `=` `sched.fuse` %l,*                   `sched.reorder` %l,*
                | %m, %r `=` `sched.peel` %l `by` n          `sched.pragma` %l "key" `=` attr
                | `sched.parallel` %l                        `sched.vectorize` %l,*
                | `sched.unroll` %l                          `sched.bind` %l `to` "axis"
                | `sched.tensorize` %l "intrin"
    blocks    ::= `sched.compute_at` %b `at` %l              `sched.reverse_compute_at` %b `at` %l
                | `sched.compute_inline` %b                  %rf `=` `sched.rfactor` %l `axis` n
                | %i, %u `=` `sched.decompose_reduction` %b `at` %l
    buffers   ::= %c `=` `sched.cache_read` %b`[` n `]` "scope"
                | %c `=` `sched.cache_write` %b "scope"      `sched.set_scope` %b "scope"
                | `sched.storage_align` %b `axis` n `factor` n `offset` n
                | `sched.transform_layout` %b `[` expr over d0, d1, ... `,` ... `]`
    factors   ::= `[` (`?` | n | %t),* `]`

Handles are SSA values. A loop or block that moves keeps its handles. split, tile, fuse, peel, compute_inline,
decompose_reduction and tensorize consume their operands; compute_at also consumes the loops that it leaves empty.
"""

from xdsl.ir import Dialect

from mlc.dialects.sched.blocks import (
    CacheReadOp,
    CacheWriteOp,
    ComputeAtOp,
    ComputeInlineOp,
    DecomposeReductionOp,
    ReverseComputeAtOp,
    RfactorOp,
    SetScopeOp,
    StorageAlignOp,
    TransformLayoutOp,
)
from mlc.dialects.sched.handles import (
    BLOCK,
    I64,
    INT,
    LOOP,
    BlockOp,
    BlockType,
    ChildOp,
    IntType,
    LoopsOp,
    LoopType,
    ScheduleOp,
)
from mlc.dialects.sched.intrinsic import IntrinsicOp
from mlc.dialects.sched.knobs import KnobOp, KnobValue, knob_attribute, knob_text, knob_value
from mlc.dialects.sched.loops import (
    BindOp,
    FuseOp,
    ParallelOp,
    PeelOp,
    PragmaOp,
    ReorderOp,
    SplitOp,
    TensorizeOp,
    TileOp,
    UnrollOp,
    VectorizeOp,
)

__all__ = [
    "BLOCK",
    "I64",
    "INT",
    "LOOP",
    "BindOp",
    "BlockOp",
    "BlockType",
    "CacheReadOp",
    "CacheWriteOp",
    "ChildOp",
    "ComputeAtOp",
    "ComputeInlineOp",
    "DecomposeReductionOp",
    "FuseOp",
    "IntType",
    "IntrinsicOp",
    "KnobOp",
    "KnobValue",
    "LoopType",
    "LoopsOp",
    "ParallelOp",
    "PeelOp",
    "PragmaOp",
    "ReorderOp",
    "ReverseComputeAtOp",
    "RfactorOp",
    "Sched",
    "ScheduleOp",
    "SetScopeOp",
    "SplitOp",
    "StorageAlignOp",
    "TensorizeOp",
    "TileOp",
    "TransformLayoutOp",
    "UnrollOp",
    "VectorizeOp",
    "knob_attribute",
    "knob_text",
    "knob_value",
]

Sched = Dialect(
    "sched",
    [
        ScheduleOp,
        IntrinsicOp,
        BlockOp,
        LoopsOp,
        ChildOp,
        KnobOp,
        SplitOp,
        TileOp,
        FuseOp,
        ReorderOp,
        PeelOp,
        ParallelOp,
        VectorizeOp,
        UnrollOp,
        BindOp,
        PragmaOp,
        TensorizeOp,
        ComputeAtOp,
        ReverseComputeAtOp,
        ComputeInlineOp,
        CacheReadOp,
        CacheWriteOp,
        RfactorOp,
        SetScopeOp,
        StorageAlignOp,
        DecomposeReductionOp,
        TransformLayoutOp,
    ],
    [BlockType, LoopType, IntType],
)
