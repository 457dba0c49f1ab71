"""
The llvm_ext dialect: LLVM operations that xDSL's `llvm` dialect lacks.

    op        ::= memory | vector | arithmetic | sync
    memory    ::= masked_load | masked_store | gather | scatter | prefetch
    vector    ::= splat | extractelement | poison
    arithmetic::= cast kind | fcmp predicate | select | intrinsic name | math name
    sync      ::= atomicrmw kind ordering | fence ordering

Each op is one LLVM instruction or intrinsic, except `splat` and `gather` (two) and `math` (a call of a prelude
function, `codegen/llvm/prelude`). Scalars and one-dimensional vectors are handled alike.

Flags that upstream ops do not model are discardable attributes, which `codegen/llvm/ir.py` reads:
`nontemporal` and `invariant` on `llvm.load`, `no_unroll` on a branch that closes a loop.
"""

from xdsl.ir import Dialect

from mlc.dialects.llvm_ext.memory import (
    AtomicRMWOp,
    FenceOp,
    GatherOp,
    MaskedLoadOp,
    MaskedStoreOp,
    PrefetchOp,
    ScatterOp,
)
from mlc.dialects.llvm_ext.rules import MATH_FUNCTIONS, X86AMXType, argument_attributes, element_of, mask_type
from mlc.dialects.llvm_ext.values import (
    CastOp,
    ExtractElementOp,
    FCmpOp,
    IntrinsicOp,
    MathOp,
    PoisonOp,
    SelectOp,
    SplatOp,
)

__all__ = [
    "MATH_FUNCTIONS",
    "AtomicRMWOp",
    "CastOp",
    "ExtractElementOp",
    "FCmpOp",
    "FenceOp",
    "GatherOp",
    "IntrinsicOp",
    "LLVMExt",
    "MaskedLoadOp",
    "MaskedStoreOp",
    "MathOp",
    "PoisonOp",
    "PrefetchOp",
    "ScatterOp",
    "SelectOp",
    "SplatOp",
    "X86AMXType",
    "argument_attributes",
    "element_of",
    "mask_type",
]

LLVMExt = Dialect(
    "llvm_ext",
    [
        AtomicRMWOp,
        CastOp,
        ExtractElementOp,
        FCmpOp,
        FenceOp,
        GatherOp,
        IntrinsicOp,
        MaskedLoadOp,
        MaskedStoreOp,
        MathOp,
        PoisonOp,
        PrefetchOp,
        ScatterOp,
        SelectOp,
        SplatOp,
    ],
    [X86AMXType],
)
