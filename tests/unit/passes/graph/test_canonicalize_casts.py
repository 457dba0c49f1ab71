"""Casts of casts: for all types, what canonicalization leaves computes what stood there."""

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from mlc.dialects.graph import CastOp
from mlc.dialects.graph.types import ELEMENT_TYPES, dtype_name, numpy_dtype
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.interp.graph import main_function, run_function

TYPES = list(ELEMENT_TYPES.values())
INTEGERS = [t for t in TYPES if "int" in dtype_name(t) or dtype_name(t) == "bool"]
FLOATS = [t for t in TYPES if t not in INTEGERS]


def values(element: Any) -> Any:
    """All bytes; of wider integers those about each power of two; of floats what fits into bytes, and halves."""
    dtype = numpy_dtype(element)
    if element in FLOATS:
        return np.arange(0, 127, 0.5).astype(dtype)
    if dtype == np.bool_:
        return np.array([False, True])
    info = np.iinfo(dtype)
    if info.bits == 8:
        return np.arange(info.min, info.max + 1).astype(dtype)
    near = [sign * (1 << k) + by for k in range(info.bits) for by in (-1, 0, 1) for sign in (-1, 1)]
    return np.array([v for v in near if info.min <= v <= info.max], dtype)


def chain(name: str, x: Any, y: Any, z: Any) -> str:
    """A function: the first type's values through the second to the third."""
    n = len(values(x))
    return f"""func.func @{name}(%x: tensor<{n}x{x}>) -> tensor<{n}x{z}> {{
      %0 = graph.cast %x : (tensor<{n}x{x}>) -> tensor<{n}x{y}>
      %1 = graph.cast %0 : (tensor<{n}x{y}>) -> tensor<{n}x{z}>
      func.return %1 : tensor<{n}x{z}>
    }}"""


def parsed(*functions: str) -> ModuleOp:
    return Parser(make_context(), "\n".join(functions)).parse_module()


def casts(module: ModuleOp) -> int:
    return sum(isinstance(op, CastOp) for op in module.walk())


@pytest.mark.parametrize("first", TYPES, ids=dtype_name)
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_casts_of_casts(first: Any) -> None:
    x = values(first)
    kind = FLOATS if first in FLOATS else INTEGERS  # others are never merged
    names = [f"{a}_{b}" for a in kind for b in kind]
    module = parsed(*(chain(f"{a}_{b}", first, a, b) for a in kind for b in kind))
    wanted = [run_function(main_function(module, name), [x])[0] for name in names]
    run_passes(module, make_context(), ["graph-canonicalize"])
    for name, array in zip(names, wanted, strict=True):
        (found,) = run_function(main_function(module, name), [x])
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array, f"{first}_{name}")


@pytest.mark.parametrize(
    ("types", "left"),
    [
        (("i8", "i16", "i32"), 1),  # the value is kept
        (("ui8", "i16", "ui32"), 1),
        (("i1", "ui8", "f32"), 2),
        (("f16", "f32", "f64"), 1),
        (("i8", "ui16", "i32"), 2),  # -1, 65535
        (("ui8", "i8", "i32"), 2),
        (("i32", "i8", "i32"), 2),
        (("i1", "i16", "i64"), 1),
        (("f32", "f16", "f32"), 2),
    ],
)
def test_which_casts_merge(types: tuple[str, str, str], left: int) -> None:
    elements = {str(t): t for t in TYPES}
    module = parsed(chain("main", *(elements[t] for t in types)))
    run_passes(module, make_context(), ["graph-canonicalize"])
    assert casts(module) == left
