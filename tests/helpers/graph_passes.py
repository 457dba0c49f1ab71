"""What the tests of graph passes share: run a pipeline over a module and compare what it computes."""

import numpy as np

from mlc.dialects.attributes import GRAPH_KERNEL
from mlc.dialects.graph import ParamOp, static_shape
from mlc.dialects.graph.store import attach_store
from mlc.dialects.graph.types import numpy_dtype
from mlc.dialects.syntax.source import parse_module
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.interp.graph import main_function, run_function
from mlc.passes.rewriting import functions
from mlc.support.arithmetic import WIDE
from mlc.support.weights import WeightStore


def random_array(rng, type, low=0.2, high=1.5):
    """An array of a tensor type, of positive numbers with random signs where floats, small where integers."""
    shape, dtype = static_shape(type), numpy_dtype(type.element_type)
    if dtype.kind != "f":
        return rng.integers(0, 3, shape).astype(dtype)
    return (rng.uniform(low, high, shape) * rng.choice([-1.0, 1.0], shape)).astype(dtype)


def random_store(module, seed=0):
    """Random weights for every graph.param; those whose name starts with `pos` are positive."""
    rng, store = np.random.default_rng(seed), WeightStore()
    for op in module.walk():
        if isinstance(op, ParamOp) and op.entry not in store:
            array = random_array(rng, op.type)
            store.add(op.entry, np.abs(array) if op.entry.startswith("pos") else array)
    return store


def optimize(text, *passes, weights=True):
    """The module of a text after passes, each verified; and its results on random inputs are what they were."""
    module = parse_module(text)
    store = random_store(module)
    rng = np.random.default_rng(1)
    inputs = [random_array(rng, type) for type in main_function(module).function_type.inputs]
    before = run_function(main_function(module), inputs, store, WIDE)
    if weights:
        attach_store(module, store)
    run_passes(module, make_context(), passes, verify=True)
    after = run_function(main_function(module), inputs, store, WIDE)
    for a, b in zip(before, after, strict=True):  # in f64: networks may enlarge the rounding errors of f32 at will
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        np.testing.assert_allclose(b, a, rtol=2e-5, atol=2e-5 * max(1.0, float(np.abs(a).max(initial=0))))
    return module


def names(module, function="main"):
    """The op names of a function's body, without `graph.`, constants and weights left out."""
    skipped = ("param", "constant", "full", "func.return")
    ops = [op.name.removeprefix("graph.") for op in main_function(module, function).body.block.ops]
    return [name for name in ops if name not in skipped]


def groups(module):
    """The fused regions of @main, each as its op names."""
    from mlc.dialects.graph import FusedOp

    found = [op for op in main_function(module).body.block.ops if isinstance(op, FusedOp)]
    return [[op.name.removeprefix("graph.") for op in f.body.block.ops][:-1] for f in found]


def kernels(module):
    """The kernels that graph-outline-kernels made, in order."""
    return [function for function in functions(module) if GRAPH_KERNEL in function.attributes]
