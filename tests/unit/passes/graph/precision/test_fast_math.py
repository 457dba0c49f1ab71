"""graph-fast-math: the stated errors, over the whole range and in compiled code; levels that differ."""

import math

import numpy as np
import pytest

import mlc
from mlc.dialects.syntax.source import parse_module
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.interp.graph import main_function, run_function
from mlc.validation.validate_each import ValidateInstrument

erf = np.vectorize(math.erf)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


# op -> its meaning in f64, and the error that is stated, as a function of x and y
STATED = {
    "tanh": (np.tanh, lambda x, y: 2e-6),
    "erf": (erf, lambda x, y: 1e-5),
    "exp": (np.exp, lambda x, y: 4e-6 * y + 1e-6 * np.abs(x) * y),
    "sigmoid": (sigmoid, lambda x, y: 1e-6),
    "gelu": (lambda x: x / 2 * (1 + erf(x / math.sqrt(2))), lambda x, y: 5e-6 * np.abs(x) + 1e-9),
    "silu": (lambda x: x * sigmoid(x), lambda x, y: 1e-6 * np.abs(x) + 1e-9),
}
POINTS = np.concatenate([np.linspace(-20, 20, 60001), np.linspace(-1e-3, 1e-3, 5001), [-0.0, 0.0]]).astype(np.float32)


def module_of(op, count, element="f32"):
    type = f"tensor<{count}x{element}>"
    return f"func.func @main(%x: {type}) -> {type} {{\n%0 = graph.{op} %x : {type}\nreturn %0 : {type}\n}}"


@pytest.mark.parametrize("op", STATED)
def test_the_stated_errors_hold(op):
    module = parse_module(module_of(op, POINTS.size))
    run_passes(module, make_context(), ["graph-fast-math"], verify=True)
    assert f"graph.{op} " not in str(module)
    (got,) = run_function(main_function(module), [POINTS])
    meaning, allowed = STATED[op]
    x = POINTS.astype(np.float64)
    assert (np.abs(got - meaning(x)) <= allowed(x, meaning(x))).all()


@pytest.mark.parametrize("op", STATED)
def test_far_away_values_are_finite(op):
    far = np.array([-np.inf, -3e38, -1e4, 1e4, 3e38, np.inf], np.float32)
    far = far[1:-1] if op in ("gelu", "silu") else far
    module = parse_module(module_of(op, far.size))
    run_passes(module, make_context(), ["graph-fast-math"], verify=True)
    (got,) = run_function(main_function(module), [far])
    assert np.isfinite(got).all()
    if op == "exp":
        np.testing.assert_allclose(got, np.exp(np.clip(far, -87, 88)), rtol=1e-5)


def test_compiled_code_has_the_stated_errors():
    type = "tensor<4096xf32>"
    body = "\n".join(f"%{i} = graph.{op} %x : {type}" for i, op in enumerate(STATED))
    results, types = ", ".join(f"%{i}" for i in range(len(STATED))), ", ".join([type] * len(STATED))
    text = f"func.func @main(%x: {type}) -> ({types}) {{\n{body}\nreturn {results} : {types}\n}}"
    exe = mlc.compile(parse_model(text), opt_level=4)
    x = np.linspace(-9, 9, 4096).astype(np.float32)
    got = list(exe({exe.inputs[0].name: x}).values())
    for value, (meaning, allowed) in zip(got, STATED.values(), strict=True):
        wanted = meaning(x.astype(np.float64))
        assert (np.abs(value - wanted) <= allowed(x, wanted)).all()


def parse_model(text):
    from mlc.frontends.common.model import Model
    from mlc.support.weights import WeightStore

    return Model(parse_module(text), WeightStore())


def test_validation_allows_what_is_stated_and_no_more(monkeypatch):
    from mlc.passes.graph.precision import fast_math
    from mlc.validation.validate_each import ResultChanged

    text = module_of("tanh", 64)
    run_passes(parse_module(text), make_context(), ["graph-O4"], verify=True, instruments=[ValidateInstrument()])
    limit, above, below = fast_math.TANH
    monkeypatch.setattr(fast_math, "TANH", (limit, (above[0] * 1.001, *above[1:]), below))
    with pytest.raises(ResultChanged, match="graph-fast-math"):
        run_passes(parse_module(text), make_context(), ["graph-fast-math"], instruments=[ValidateInstrument()])
