"""
The te dialect: a kernel as stages of index expressions.

    kernel   ::= `te.func` @name `(` args `)` `->` types `{` (stage | scan | table | extern)* `te.return` ... `}`
    stage    ::= `te.compute` "name" axes (`reduce` axes (combiner | reducer))? region `:` type,*
    axes     ::= `(` (%axis `:` extent),* `)`
    reducer  ::= `combine` "name" `(` (%argument `:` type),* `)` `from` `(` neutral element,* `)` region
    scan     ::= `te.scan` "name" `(` (%state `=` %init),* `)` `steps` extent `:` type,* region
    extern   ::= `te.extern` "name" ...  (te_extern.py: a loop body, or a call of a function)
    table    ::= `te.table` dense numbers
    element  ::= `te.read` %tensor `[` index,* `]` (`mask` `(` index,* `)` `else` %value)? `:` type
               | `te.index` expr   |   arith.* and math.* on scalars   |   `te.yield` %value,*

An index is a quasi-affine expression of the stage's axes and of index values computed from data (a gather). A mask
lists expressions that must all be >= 0; where one is not, the read gives the `else` value and touches no memory.
"""

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Dialect, Region

from mlc.dialects.index import IndexMapAttr
from mlc.dialects.te.elements import IndexOp, YieldOp
from mlc.dialects.te.kernel import FuncOp, ReturnOp
from mlc.dialects.te.reducer import CustomReducer
from mlc.dialects.te.scan import ScanOp, step_back
from mlc.dialects.te.stages import ComputeOp, ReadOp
from mlc.dialects.te.table import TableOp
from mlc.dialects.te_extern import ExternOp

__all__ = [
    "ComputeOp",
    "CustomReducer",
    "FuncOp",
    "IndexOp",
    "ReadOp",
    "ReturnOp",
    "ScanOp",
    "TableOp",
    "Te",
    "YieldOp",
    "build_body",
    "step_back",
]


def build_body(axes: int) -> tuple[Region, Block]:
    """A region whose block has one index argument per axis."""
    block = Block(arg_types=[IndexType()] * axes)
    return Region(block), block


Te = Dialect("te", [FuncOp, ReturnOp, ComputeOp, ScanOp, TableOp, YieldOp, ReadOp, IndexOp, ExternOp], [IndexMapAttr])
