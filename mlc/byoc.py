"""
External compilers: the parts of a model that somebody else's code computes (docs/external-compilers.md).

A table of patterns says what a compiler takes over, a codegen makes an object or C source of each region.
"""

from mlc.dialects.graph.types import shape_of
from mlc.passes.graph.external.annotate.compilers import (
    ExternalCompiler,
    ExternalKernel,
    Region,
    register_compiler,
    remove_compiler,
)
from mlc.passes.graph.external.annotate.patterns import (
    OperandPattern,
    Pattern,
    PatternMatch,
    is_constant,
    is_op,
    wildcard,
)

__all__ = [
    "ExternalCompiler",
    "ExternalKernel",
    "OperandPattern",
    "Pattern",
    "PatternMatch",
    "Region",
    "is_constant",
    "is_op",
    "register_compiler",
    "remove_compiler",
    "shape_of",
    "wildcard",
]
