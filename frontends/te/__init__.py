"""
`mlc.te`: one operator in Python, as TVM's te writes it. Goes in: placeholders and functions of indices. Comes out: a
te.func op, which `mlc.build` compiles.

    A, B = te.placeholder((64, 32), name="A"), te.placeholder((32, 48), name="B")
    k = te.reduce_axis(32, "k")
    C = te.compute((64, 48), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    matmul = mlc.build(te.func("matmul", [A, B], [C]))
"""

from mlc.dialects.te_builder import api as _api
from mlc.dialects.te_builder.api import *  # noqa: F403 - the one list of the names


def __dir__() -> list[str]:
    """The names of the API alone."""
    return sorted(name for name in vars(_api) if not name.startswith("_"))
