"""The graph ops' own samples as ops and arrays."""

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.base import GraphOp
from mlc.dialects.graph.graph_numpy import result_dtype


def make(cls: type[GraphOp], sample, operands) -> GraphOp:
    if cls is g.ConstantOp:
        return g.ConstantOp.make(sample.attrs["value"])
    if cls is g.FullOp:
        return g.FullOp.make(sample.result.get_shape(), sample.attrs["value"], sample.result.element_type)
    result = {} if sample.result is None else {"result": sample.result}
    return cls.make(*operands, **result, **sample.attrs)


def arrays_of(sample, seed=0):
    rng = np.random.default_rng(seed)
    low, high = sample.integers
    for type in sample.operands:
        dtype = result_dtype(type)
        if np.issubdtype(dtype, np.floating):
            yield rng.uniform(sample.low, sample.high, type.get_shape()).astype(dtype)
        else:
            bounds = (0, 2) if dtype.kind == "b" else (low, high)
            yield rng.integers(*bounds, type.get_shape()).astype(dtype)
