"""The angle functions beyond sine and cosine, and the hyperbolic ones."""

from __future__ import annotations

from typing import Any

from mlc.dialects.graph.base import GraphOp
from mlc.dialects.graph.ops.elementwise import UnaryOp


def _unary(name: str, formula: str, domain: tuple[float, float] = (-4.0, 4.0)) -> dict[str, Any]:
    numpy_name = name.replace("a", "arc", 1) if name in ("asin", "acos", "atan") else name
    return {
        "__doc__": f"`{formula}`, each element: `%1 = graph.{name} %0 : tensor<2x3xf32>`.",
        "__module__": __name__,
        "name": f"graph.{name}",
        "meaning": staticmethod(lambda np, x, op: getattr(np, numpy_name)(x)),
        "tolerance": 4,
        "elements": "float",
        "domain": domain,
    }


# Formula and domain of the samples of each op.
TanOp = type("TanOp", (UnaryOp,), _unary("tan", "tan x", (-1.4, 1.4)))
AsinOp = type("AsinOp", (UnaryOp,), _unary("asin", "arcsin x", (-1.0, 1.0)))
AcosOp = type("AcosOp", (UnaryOp,), _unary("acos", "arccos x", (-1.0, 1.0)))
AtanOp = type("AtanOp", (UnaryOp,), _unary("atan", "arctan x"))
SinhOp = type("SinhOp", (UnaryOp,), _unary("sinh", "sinh x"))
CoshOp = type("CoshOp", (UnaryOp,), _unary("cosh", "cosh x"))

OPS: list[type[GraphOp]] = [TanOp, AsinOp, AcosOp, AtanOp, SinhOp, CoshOp]
