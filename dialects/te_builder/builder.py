"""
te as Python, for the lowering from graph ops: the API of `mlc.te`, and what only the compiler uses.

    A, B = te.placeholder((64, 32), name="A"), te.placeholder((32, 48), name="B")
    k = te.reduce_axis(32, "k")
    C = te.compute((64, 48), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    func = te.func("matmul", [A, B], [C])                       # a te.func op
"""

from mlc.dialects.te_builder import scalars as scalars
from mlc.dialects.te_builder.api import *  # noqa: F403 - the one list of the API's names
from mlc.dialects.te_builder.indices import ElementIndex as ElementIndex
from mlc.dialects.te_builder.indices import IndexLike as IndexLike
from mlc.dialects.te_builder.indices import condition as condition
from mlc.dialects.te_builder.indices import current_stage as current_stage
from mlc.dialects.te_builder.reductions import size as size
from mlc.dialects.te_builder.scalars import Number as Number
from mlc.dialects.te_builder.scalars import exp_nonpositive as exp_nonpositive
from mlc.dialects.te_builder.scalars import holds as holds
from mlc.dialects.te_builder.scalars import signless as signless
from mlc.dialects.te_builder.stages import NO_INLINE as NO_INLINE
from mlc.dialects.te_builder.stages import KernelBuilder as KernelBuilder
from mlc.dialects.te_builder.stages import building as building
from mlc.dialects.te_builder.stages import current_kernel as current_kernel
from mlc.dialects.te_builder.tensors import te_type as te_type
from mlc.dialects.te_builder.tensors import tensor_of as tensor_of
