"""graph-simplify-expr: every law holds on values, at the edges of types too, and on random expressions."""

import numpy as np
import pytest
from graph_passes import names, optimize

from mlc.dialects.syntax.source import parse_module
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.interp.graph import main_function, run_function

SIMPLIFY = "graph-simplify-expr,graph-fold-constant"
EDGES = {"i8": [-128, -1, 0, 1, 127], "ui8": [0, 1, 127, 128, 255], "i16": [-32768, -1, 0, 300, 32767]}
DTYPES = {"i8": np.int8, "ui8": np.uint8, "i16": np.int16, "i32": np.int32}


def func(body, *, arg="tensor<5xf32>", result=None, name="y"):
    result = result or arg
    return f"func.func @main(%x: {arg}) -> {result} {{\n{body}\nreturn %{name} : {result}\n}}"


def both(text, arrays):
    """What a module computes before and after the pass, and the names of the ops that are left."""
    module = parse_module(text)
    before = run_function(main_function(module), arrays)
    run_passes(module, make_context(), [SIMPLIFY], verify=True)
    return before, run_function(main_function(module), arrays), names(module)


@pytest.mark.parametrize("first", ["add", "subtract", "multiply", "divide"])
@pytest.mark.parametrize("second", ["add", "subtract", "multiply", "divide"])
@pytest.mark.parametrize("shape", ["5", "1", ""])
def test_constants_join(first, second, shape):
    c = f"tensor<{shape}xf32>" if shape else "tensor<f32>"
    text = func(f"""
      %a = graph.param "a" : {c}
      %b = graph.param "b" : {c}
      %0 = graph.{first} %x, %a : (tensor<5xf32>, {c}) -> tensor<5xf32>
      %y = graph.{second} %0, %b : (tensor<5xf32>, {c}) -> tensor<5xf32>""")
    found = names(optimize(text, SIMPLIFY))
    alike = {"add": 0, "subtract": 0, "multiply": 1, "divide": 1}
    if alike[first] == alike[second]:
        assert len(found) == 1
    elif second == "multiply":
        assert found == ["multiply", first]
    else:
        assert found == [first, second]


def test_integers_join_where_they_wrap_around():
    text = func(
        """
      %a = graph.constant dense<100> : tensor<i8>
      %b = graph.constant dense<3> : tensor<i8>
      %0 = graph.add %x, %a : (tensor<5xi8>, tensor<i8>) -> tensor<5xi8>
      %1 = graph.add %0, %a : (tensor<5xi8>, tensor<i8>) -> tensor<5xi8>
      %2 = graph.multiply %1, %b : (tensor<5xi8>, tensor<i8>) -> tensor<5xi8>
      %y = graph.multiply %2, %b : (tensor<5xi8>, tensor<i8>) -> tensor<5xi8>""",
        arg="tensor<5xi8>",
    )
    before, after, found = both(text, [np.array(EDGES["i8"], np.int8)])
    np.testing.assert_array_equal(after[0], before[0])
    assert found == ["multiply", "add"]


def test_integer_divisions_stay():
    text = func(
        """
      %a = graph.constant dense<3> : tensor<i32>
      %0 = graph.multiply %x, %a : (tensor<5xi32>, tensor<i32>) -> tensor<5xi32>
      %y = graph.divide %0, %a : (tensor<5xi32>, tensor<i32>) -> tensor<5xi32>""",
        arg="tensor<5xi32>",
    )
    assert names(optimize(text, SIMPLIFY)) == ["multiply", "divide"]


@pytest.mark.parametrize(
    ("a", "b", "joins"), [(1e-30, 1e-30, False), (1e30, 1e30, False), (0.0, 2.0, True), (1e30, 1e-30, True)]
)
def test_products_of_numbers_stay_normal(a, b, joins):
    text = func(f"""
      %a = graph.constant dense<{a:.6e}> : tensor<f32>
      %b = graph.constant dense<{b:.6e}> : tensor<f32>
      %0 = graph.multiply %x, %a : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
      %y = graph.multiply %0, %b : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>""")
    module = parse_module(text)
    run_passes(module, make_context(), [SIMPLIFY], verify=True)
    assert len(names(module)) == (1 if joins else 2)


@pytest.mark.parametrize(("a", "b", "joins"), [(256.0, 1024.0, False), (0.005, 0.005, False), (-0.5, 0.25, True)])
def test_products_of_numbers_of_f16_stay_normal(a, b, joins):
    text = func(
        f"""
      %a = graph.constant dense<{a:.6e}> : tensor<f16>
      %b = graph.constant dense<{b:.6e}> : tensor<f16>
      %0 = graph.multiply %x, %a : (tensor<5xf16>, tensor<f16>) -> tensor<5xf16>
      %y = graph.multiply %0, %b : (tensor<5xf16>, tensor<f16>) -> tensor<5xf16>""",
        arg="tensor<5xf16>",
    )
    x = np.array([0, 0.001, 0.2, -0.03, 0.007], np.float16)
    module = parse_module(text)
    wanted = run_function(main_function(module), [x])
    run_passes(module, make_context(), ["graph-simplify", "graph-fold-scale-axis", SIMPLIFY], verify=True)
    assert len(names(module)) == (1 if joins else 2)
    np.testing.assert_allclose(run_function(main_function(module), [x]), wanted, rtol=2e-3, atol=1e-7)


def test_numbers_of_f16_stay_before_products_and_sums():
    text = """func.func @main(%x: tensor<5x5xf16>) -> (tensor<5x5xf16>, tensor<5x5xf16>) {
      %a = graph.constant dense<1.250000e-01> : tensor<f16>
      %0 = graph.multiply %x, %a : (tensor<5x5xf16>, tensor<f16>) -> tensor<5x5xf16>
      %1 = graph.batch_matmul %0, %x : tensor<5x5xf16>
      %2 = graph.subtract %x, %a : (tensor<5x5xf16>, tensor<f16>) -> tensor<5x5xf16>
      %3 = graph.multiply %2, %a : (tensor<5x5xf16>, tensor<f16>) -> tensor<5x5xf16>
      return %1, %3 : tensor<5x5xf16>, tensor<5x5xf16>
    }"""
    x = np.full((5, 5), 60000, np.float16)
    x[:, 1:] = 0.01
    module = parse_module(text)
    wanted = run_function(main_function(module), [x])
    run_passes(module, make_context(), ["graph-simplify", "graph-fold-scale-axis", SIMPLIFY], verify=True)
    assert names(module) == ["multiply", "batch_matmul", "subtract", "multiply"]
    np.testing.assert_array_equal(run_function(main_function(module), [x]), wanted)


def test_a_sum_that_something_else_reads_stays():
    text = """func.func @main(%x: tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>) {
      %a = graph.constant dense<3.0> : tensor<f32>
      %0 = graph.add %x, %a : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
      %y = graph.multiply %0, %a : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
      return %0, %y : tensor<5xf32>, tensor<5xf32>
    }"""
    assert names(optimize(text, SIMPLIFY)) == ["add", "multiply"]


@pytest.mark.parametrize("numerator", ["%one", "%p"])
def test_roots(numerator):
    type = "tensor<f32>" if numerator == "%one" else "tensor<5xf32>"
    text = func(f"""
      %one = graph.constant dense<1.0> : tensor<f32>
      %p = graph.param "p" : tensor<5xf32>
      %e = graph.constant dense<0.1> : tensor<f32>
      %q = graph.multiply %x, %x : tensor<5xf32>
      %v = graph.add %q, %e : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
      %s = graph.sqrt %v : tensor<5xf32>
      %y = graph.divide {numerator}, %s : ({type}, tensor<5xf32>) -> tensor<5xf32>""")
    found = names(optimize(text, SIMPLIFY))
    assert found[2:] == (["rsqrt"] if numerator == "%one" else ["rsqrt", "multiply"])


@pytest.mark.parametrize("source", EDGES)
@pytest.mark.parametrize("target", ["i8", "ui8", "i16", "i32"])
@pytest.mark.parametrize("between", ["f16", "f32"])
def test_casts_through_floats_keep_every_integer(source, target, between):
    low, high = np.iinfo(DTYPES[source]).min, np.iinfo(DTYPES[source]).max
    holds = np.iinfo(DTYPES[target]).min <= low and high <= np.iinfo(DTYPES[target]).max
    text = func(
        f"""
      %0 = graph.cast %x : (tensor<5x{source}>) -> tensor<5x{between}>
      %y = graph.cast %0 : (tensor<5x{between}>) -> tensor<5x{target}>""",
        arg=f"tensor<5x{source}>",
        result=f"tensor<5x{target}>",
    )
    values = np.array(EDGES[source], DTYPES[source])
    before, after, found = both(text, [values])
    joined = holds and (between == "f32" or source != "i16")
    assert (len(found) == 1) == joined
    if joined:
        np.testing.assert_array_equal(after[0], before[0])
        np.testing.assert_array_equal(after[0], values)


@pytest.mark.parametrize("op", ["argmax", "argmin", "argsort"])
@pytest.mark.parametrize("element", ["i8", "ui8", "i16"])
def test_the_order_of_dequantized_integers_is_theirs(op, element):
    attrs = "{axis = 1}" if op == "argsort" else "{axes = [1]}"
    result = "tensor<3x40xi64>" if op == "argsort" else "tensor<3xi64>"
    text = func(
        f"""
      %z = graph.constant dense<7> : tensor<i32>
      %s = graph.constant dense<0.0123> : tensor<f32>
      %0 = graph.cast %x : (tensor<3x40x{element}>) -> tensor<3x40xi32>
      %1 = graph.subtract %0, %z : (tensor<3x40xi32>, tensor<i32>) -> tensor<3x40xi32>
      %2 = graph.cast %1 : (tensor<3x40xi32>) -> tensor<3x40xf32>
      %3 = graph.multiply %2, %s : (tensor<3x40xf32>, tensor<f32>) -> tensor<3x40xf32>
      %y = graph.{op} %3 {attrs} : (tensor<3x40xf32>) -> {result}""",
        arg=f"tensor<3x40x{element}>",
        result=result,
    )
    info = np.iinfo(DTYPES[element])
    values = np.random.default_rng(0).integers(info.min, info.max + 1, (3, 40)).astype(DTYPES[element])
    before, after, found = both(text, [values])
    assert found == [op]
    np.testing.assert_array_equal(after[0], before[0])


@pytest.mark.parametrize(("scale", "shift"), [(-1.0, 0.0), (0.01, 1.0e9)])
def test_an_order_that_may_change_is_kept(scale, shift):
    text = func(
        f"""
      %z = graph.constant dense<{shift}> : tensor<f32>
      %s = graph.constant dense<{scale}> : tensor<f32>
      %0 = graph.cast %x : (tensor<5xi8>) -> tensor<5xf32>
      %1 = graph.subtract %0, %z : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
      %2 = graph.multiply %1, %s : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
      %y = graph.argmax %2 {{axes = [0]}} : (tensor<5xf32>) -> tensor<i64>""",
        arg="tensor<5xi8>",
        result="tensor<i64>",
    )
    before, after, found = both(text, [np.array(EDGES["i8"], np.int8)])
    assert found != ["argmax"]
    np.testing.assert_array_equal(after[0], before[0])


@pytest.mark.parametrize("element", ["i8", "ui8"])
def test_the_order_of_sums_that_wrap_around_is_kept(element):
    text = func(
        f"""
      %z = graph.constant dense<100> : tensor<{element}>
      %0 = graph.subtract %x, %z : (tensor<5x{element}>, tensor<{element}>) -> tensor<5x{element}>
      %1 = graph.cast %0 : (tensor<5x{element}>) -> tensor<5xf32>
      %y = graph.argmax %1 {{axes = [0]}} : (tensor<5xf32>) -> tensor<i64>""",
        arg=f"tensor<5x{element}>",
        result="tensor<i64>",
    )
    before, after, found = both(text, [np.array(EDGES[element], DTYPES[element])])
    assert found == ["subtract", "cast", "argmax"]
    np.testing.assert_array_equal(after[0], before[0])


def test_the_order_of_what_becomes_infinite_is_kept():
    text = """func.func @main(%x: tensor<5xi8>) -> (tensor<i64>, tensor<5xf32>) {
      %s = graph.constant dense<9.0e19> : tensor<f32>
      %0 = graph.cast %x : (tensor<5xi8>) -> tensor<5xf32>
      %1 = graph.multiply %0, %s : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
      %2 = graph.multiply %1, %s : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
      %y = graph.argmax %2 {axes = [0]} : (tensor<5xf32>) -> tensor<i64>
      return %y, %1 : tensor<i64>, tensor<5xf32>
    }"""
    before, after, _ = both(text, [np.array([1, 2, 127, 3, -1], np.int8)])
    np.testing.assert_array_equal(after[0], before[0])


@pytest.mark.parametrize("element", ["i8", "ui8"])
def test_saturating_casts_are_a_clip(element):
    info = np.iinfo(DTYPES[element])
    text = func(
        f"""
      %0 = graph.clip %x {{min = {float(info.min)}, max = {float(info.max)}}} : tensor<5xi32>
      %1 = graph.cast %0 : (tensor<5xi32>) -> tensor<5x{element}>
      %y = graph.cast %1 : (tensor<5x{element}>) -> tensor<5xi32>""",
        arg="tensor<5xi32>",
    )
    before, after, found = both(text, [np.array([-1000, -128, 0, 200, 1000], np.int32)])
    assert found == ["clip"]
    np.testing.assert_array_equal(after[0], before[0])


@pytest.mark.parametrize("sign", ["add", "subtract"])
@pytest.mark.parametrize("order", ["xx+2xy+yy", "yy+(xx+2xy)", "xx+yy+2xy"])
def test_squares_are_completed(sign, order):
    last = {
        "xx+2xy+yy": f"%4 = graph.{sign} %a, %c : T\n%y = graph.add %4, %b : T",
        "yy+(xx+2xy)": f"%4 = graph.{sign} %a, %c : T\n%y = graph.add %b, %4 : T",
        "xx+yy+2xy": f"%4 = graph.add %a, %b : T\n%y = graph.{sign} %4, %c : T",
    }[order].replace("T", "tensor<5xf32>")
    text = f"""func.func @main(%x: tensor<5xf32>, %z: tensor<5xf32>) -> tensor<5xf32> {{
      %two = graph.constant dense<2.0> : tensor<f32>
      %a = graph.multiply %x, %x : tensor<5xf32>
      %b = graph.multiply %z, %z : tensor<5xf32>
      %m = graph.multiply %x, %z : tensor<5xf32>
      %c = graph.multiply %m, %two : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
      {last}
      return %y : tensor<5xf32>
    }}"""
    assert names(optimize(text, SIMPLIFY)) == [sign, "multiply"]


def random_expression(rng, steps):
    """A chain of pointwise ops on x with constants of random shapes."""
    lines, value = [], "x"
    for i in range(steps):
        op = rng.choice(["add", "subtract", "multiply", "divide", "twice", "relu"])
        if op == "relu":
            lines.append(f"%{i} = graph.relu %{value} : tensor<3x4xf32>")
        elif op == "twice":
            lines.append(f"%{i} = graph.add %{value}, %{value} : tensor<3x4xf32>")
        else:
            type = rng.choice(["tensor<f32>", "tensor<4xf32>", "tensor<3x1xf32>", "tensor<3x4xf32>"])
            lines.append(f'%c{i} = graph.param "c{i}" : {type}')
            sides = [(f"%{value}", "tensor<3x4xf32>"), (f"%c{i}", type)]
            if op in ("add", "multiply", "subtract") and rng.random() < 0.4:
                sides.reverse()
            (a, s), (b, t) = sides
            lines.append(f"%{i} = graph.{op} {a}, {b} : ({s}, {t}) -> tensor<3x4xf32>")
        value = i
    return func("\n".join(lines), arg="tensor<3x4xf32>", name=value)


@pytest.mark.parametrize("seed", range(25))
def test_random_expressions_keep_their_values(seed):
    text = random_expression(np.random.default_rng(seed), 7)
    before, after = names(optimize(text)), names(optimize(text, SIMPLIFY))
    assert len(after) <= len(before)
