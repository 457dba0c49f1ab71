"""The angle functions beyond sine and cosine, and the hyperbolic ones."""

from __future__ import annotations

from mlc.dialects.graph.base import GraphOp
from mlc.dialects.graph.ops.elementwise import UnaryOp

# name -> formula, domain of the samples
_FUNCTIONS = {
    "tan": ("tan x", (-1.4, 1.4)),
    "asin": ("arcsin x", (-1.0, 1.0)),
    "acos": ("arccos x", (-1.0, 1.0)),
    "atan": ("arctan x", (-4.0, 4.0)),
    "sinh": ("sinh x", (-4.0, 4.0)),
    "cosh": ("cosh x", (-4.0, 4.0)),
}


def _unary(name: str, formula: str, domain: tuple[float, float]) -> type[UnaryOp]:
    numpy_name = name.replace("a", "arc", 1) if name in ("asin", "acos", "atan") else name
    fields = {
        "__doc__": f"`{formula}`, each element: `%1 = graph.{name} %0 : tensor<2x3xf32>`.",
        "__module__": __name__,
        "name": f"graph.{name}",
        "meaning": staticmethod(lambda np, x, op: getattr(np, numpy_name)(x)),
        "tolerance": 4,
        "elements": "float",
        "domain": domain,
    }
    return type(f"{name.capitalize()}Op", (UnaryOp,), fields)


TanOp, AsinOp, AcosOp, AtanOp, SinhOp, CoshOp = (_unary(name, *facts) for name, facts in _FUNCTIONS.items())

OPS: list[type[GraphOp]] = [TanOp, AsinOp, AcosOp, AtanOp, SinhOp, CoshOp]
