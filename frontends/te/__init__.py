"""
`mlc.te`: one operator in Python, as TVM's te writes it. Goes in: placeholders and functions of indices. Comes out: a
te.func op, which `mlc.build` compiles.

    A, B = te.placeholder((64, 32), name="A"), te.placeholder((32, 48), name="B")
    k = te.reduce_axis(32, "k")
    C = te.compute((64, 48), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    matmul = mlc.build(te.func("matmul", [A, B], [C]))
"""

from types import ModuleType as _ModuleType

from mlc.dialects.te_builder.api import *  # noqa: F403 - the one list of the names that need no numpy
from mlc.dialects.te_builder.extern import c_call as c_call
from mlc.dialects.te_builder.extern import c_size as c_size
from mlc.dialects.te_builder.extern import call as call
from mlc.dialects.te_builder.extern import extern as extern
from mlc.dialects.te_builder.extern import output as output
from mlc.frontends.te.intrinsics import intrinsic as intrinsic
from mlc.frontends.te.intrinsics import load_intrinsics as load_intrinsics


def __dir__() -> list[str]:
    """The names of the API alone."""
    return sorted(n for n, value in globals().items() if n[0] != "_" and not isinstance(value, _ModuleType))
