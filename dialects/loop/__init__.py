"""
The loop dialect: scheduled loop nests over buffers, blocks, and register tiles as n-D vector values.

    kernel ::= `loop.func` @name `(` memref args `)` `attributes` {outputs = n} region      the last n are written
    nest   ::= `loop.for` %i `=` lo `to` hi kind? (`iter_args` `(` %a `=` %v,* `)` `->` types)? region
             | `loop.block` "name" axes (`reduce` axes)? (`where` `(` expr,* `)`)? (`combine` region)?
               (`init` region)? region
    axes   ::= `(` (%v `:` extent `=` expr),* `)`
             | %b `=` `loop.alloc` "scope" `:` memref
             | %b `=` `loop.table` dense numbers
    access ::= `loop.load` %A `[` expr,* `]` mask? tile? `:` type
             | `loop.store` %v `,` %A `[` expr,* `]` mask? tile? `:` type
             | `loop.gather` %A `[` expr,* `]` `by` %index `at` dim tile `:` type
    mask   ::= `mask` `(` expr,* `)` (`else` %fill)?    every expression must be >= 0, lane by lane
    tile   ::= `tile` `(` (dN `:` size),* `)`
    call   ::= `loop.call` callee `(` %buffer,* `)` `outputs` n `:` types     a function outside of mlc (external.py)
    value  ::= `loop.fma` | `loop.contract` | `loop.broadcast` | `loop.concat` | `loop.slice` | `loop.reduce`
             | `loop.compare` | `loop.select` | `loop.cast` | `loop.index`
             | upstream arith.* and math.* on scalars and on equal vector types

Loops run from `lo` to `hi` in steps of one. A tile access names the tile axes d0, d1, ... in its index expressions; an
axis that does not occur has size 1 in the value ("broadcast"). Operands of a kernel do not alias.
"""

from xdsl.ir import Dialect

from mlc.dialects.access import i64_array
from mlc.dialects.external import SizeArgument
from mlc.dialects.loop.access import (
    SCOPES,
    AccessOp,
    AllocOp,
    GatherOp,
    IndexOp,
    LoadOp,
    StoreOp,
    buffer_type,
    tile_shape,
)
from mlc.dialects.loop.call import ExternCallOp
from mlc.dialects.loop.contract import NARROW_LIMIT, WORD_BITS, ContractOp, word_factors
from mlc.dialects.loop.intrinsic import CallIntrinsicOp
from mlc.dialects.loop.structure import (
    FOR_KINDS,
    KINDS,
    BlockOp,
    ForOp,
    FuncOp,
    YieldOp,
)
from mlc.dialects.loop.table import TableOp
from mlc.dialects.loop.values import (
    CASTS,
    COMPARES,
    BroadcastOp,
    CastOp,
    CompareOp,
    ConcatOp,
    FmaOp,
    ReduceOp,
    SelectOp,
    SliceOp,
    broadcasts_to,
    element_of,
    shape_of,
    tile_type,
    with_element,
)

__all__ = [
    "CASTS",
    "COMPARES",
    "FOR_KINDS",
    "KINDS",
    "NARROW_LIMIT",
    "SCOPES",
    "WORD_BITS",
    "AccessOp",
    "AllocOp",
    "BlockOp",
    "BroadcastOp",
    "CallIntrinsicOp",
    "CastOp",
    "CompareOp",
    "ConcatOp",
    "ContractOp",
    "ExternCallOp",
    "FmaOp",
    "ForOp",
    "FuncOp",
    "GatherOp",
    "IndexOp",
    "LoadOp",
    "Loop",
    "ReduceOp",
    "SelectOp",
    "SliceOp",
    "StoreOp",
    "TableOp",
    "YieldOp",
    "broadcasts_to",
    "buffer_type",
    "element_of",
    "i64_array",
    "shape_of",
    "tile_shape",
    "tile_type",
    "with_element",
    "word_factors",
]

Loop = Dialect(
    "loop",
    [
        FuncOp,
        YieldOp,
        ForOp,
        BlockOp,
        AllocOp,
        TableOp,
        LoadOp,
        StoreOp,
        IndexOp,
        GatherOp,
        FmaOp,
        CallIntrinsicOp,
        ContractOp,
        ExternCallOp,
        BroadcastOp,
        ConcatOp,
        ReduceOp,
        CompareOp,
        SelectOp,
        SliceOp,
        CastOp,
    ],
    [SizeArgument],
)
