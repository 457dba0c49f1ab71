"""mlc.compile(specialize=...): code for each shape that comes, some of it kept; shapes= for models in memory."""

import threading

import numpy as np
import pytest
from symbolic_models import POINTWISE, PRODUCT, SOFTMAX, softmax

import mlc
from mlc.support.errors import UserError

BOUNDED = POINTWISE.replace(
    "func.func @main(%x: tensor<?x70xf32, #graph.dims<[N]>>) -> tensor<?x70xf32, #graph.dims<[N]>>",
    "func.func @main(%x: tensor<?x70xf32, #graph.dims<[N]>>) -> tensor<?x70xf32, #graph.dims<[N]>> "
    "attributes {graph.symbols = {N = #graph.symbol<2 to 20>}}",
)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MLC_CACHE_DIR", str(tmp_path / "cache"))


def write(tmp_path, text):
    path = tmp_path / "model.mlir"
    path.write_text(text)
    return path


def rows(n, width=70):
    return np.random.default_rng(n).standard_normal((n, width)).astype(np.float32)


def test_each_shape_has_code_of_its_own_and_some_are_kept(tmp_path):
    exe = mlc.compile(write(tmp_path, SOFTMAX), threads=1, specialize=2)
    assert exe.inputs[0].shape == ("N", 70)
    assert exe.kept == []
    for n in (3, 5, 3, 7):
        np.testing.assert_allclose(exe({"input0": rows(n)})["output0"], softmax(rows(n)), rtol=1e-4, atol=1e-6)
    assert exe.kept == [{"input0": (3, 70)}, {"input0": (7, 70)}]
    assert exe.at({"input0": (7, 70)}).inputs[0].shape == (7, 70)
    assert exe.report["kernels"] == 1
    assert exe.profile({"input0": rows(7)}, repeat=1)


def test_it_computes_what_a_build_for_that_shape_does(tmp_path):
    path = write(tmp_path, PRODUCT)
    exe = mlc.compile(path, threads=1, specialize=True)
    given = {"input0": rows(9, 40), "input1": rows(50, 40)}
    static = mlc.compile(path, threads=1, shapes={"input0": (9, 40)})
    assert static.inputs[0].shape == (9, 40)
    assert np.array_equal(exe(given)["output0"], static(given)["output0"])
    assert [n["kernel"] for n in exe.graph_json["nodes"]] == [n["kernel"] for n in static.graph_json["nodes"]]
    out = np.empty((9, 50), np.float32)
    assert exe(given, {"output0": out})["output0"] is out


def test_a_shape_that_was_given_up_comes_back_from_the_cache(tmp_path, monkeypatch):
    exe = mlc.compile(write(tmp_path, POINTWISE), threads=1, specialize=1)
    exe({"input0": rows(2)})
    exe({"input0": rows(3)})
    from mlc.driver.models.compilation import Compilation

    monkeypatch.setattr(Compilation, "write", lambda *_: pytest.fail("compiled again"))
    assert exe({"input0": rows(2)})["output0"].shape == (2, 70)


def test_threads_compile_a_shape_once(tmp_path, monkeypatch):
    exe = mlc.compile(write(tmp_path, POINTWISE), threads=1, specialize=4)
    built, build = [], exe._build

    def counted(model):
        built.append(model)
        return build(model)

    monkeypatch.setattr(exe, "_build", counted)
    results = {}

    def call(k):
        n = 2 + k % 3
        results[k] = np.array_equal(exe({"input0": rows(n)})["output0"], exe({"input0": rows(n)})["output0"])

    workers = [threading.Thread(target=call, args=(k,)) for k in range(9)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert results == dict.fromkeys(range(9), True)
    assert len(built) == 3


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            {"input0": np.ones((21, 70), np.float32)},
            r"expected axis 0 of input 'input0' \(N\) from 2 to 20, but got 21",
        ),
        ({"input0": np.ones((3, 71), np.float32)}, "expected axis 1 of input 'input0' to be 70, but got 71"),
        ({"input0": np.ones((3, 70))}, "expected input 'input0' of dtype float32, but got float64"),
        ({}, "expected inputs input0, but input 'input0' is missing"),
        ([], "expected inputs as a dict of name -> array, but got list"),
    ],
)
def test_what_does_not_fit_is_refused_as_ever(tmp_path, inputs, message):
    path = write(tmp_path, BOUNDED)
    for specialize in (False, True):
        with pytest.raises(ValueError, match=message):
            mlc.compile(path, threads=1, specialize=specialize)(inputs)


@pytest.mark.parametrize("specialize", [0, -1, "all", 1.5])
def test_how_many_are_kept_is_checked(tmp_path, specialize):
    with pytest.raises(UserError, match="expected specialize to be True, False or how many shapes to keep"):
        mlc.compile(write(tmp_path, POINTWISE), specialize=specialize)


def test_a_static_model_has_nothing_to_specialize(tmp_path):
    with pytest.raises(UserError, match="expected a model of symbolic sizes to specialize"):
        mlc.compile(write(tmp_path, POINTWISE), shapes={"input0": (4, 70)}, specialize=True)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda exe, path: exe.save(path / "saved"), r"call at\(shapes\).save"),
        (lambda exe, path: exe.export(path / "x.so"), r"call at\(shapes\).export"),
        (lambda exe, path: exe.report, "it is compiled when it is called"),
    ],
)
def test_what_is_for_one_shape(tmp_path, use, message):
    exe = mlc.compile(write(tmp_path, POINTWISE), specialize=True)
    with pytest.raises(UserError, match=message):
        use(exe, tmp_path)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"input0": (21, 70)}, r"shapes=: expected axis 0 of input 'input0' \(N\) from 2 to 20, but got 21"),
        ({"x": (1, 70)}, "expected shapes of inputs input0, but got an unknown input 'x'"),
        ({"input0": ("M", 70)}, "expected a number for axis 0 of input 'input0' in shapes=, but got 'M'"),
        ({"input0": (2, 70, 1)}, "shapes=: expected input 'input0' of rank 2"),
    ],
)
def test_shapes_of_a_model_in_memory_are_checked(tmp_path, shapes, message):
    model = mlc.load(write(tmp_path, BOUNDED))
    with pytest.raises(UserError, match=message):
        mlc.compile(model, shapes=shapes)


def test_shapes_that_say_what_is_so_change_nothing(tmp_path):
    model = mlc.load(write(tmp_path, BOUNDED))
    assert mlc.load(model, shapes={"input0": ("N", 70)}) is model
    assert "tensor<4x70xf32>" in str(mlc.load(model, shapes={"input0": (4, 70)}).main.function_type)
    assert "graph.dims" in str(model.main.function_type)
    with pytest.raises(
        UserError, match="expected symbols= only for an ONNX model; others declare the ranges of N themselves"
    ):
        mlc.load(model, symbols={"N": (1, 2)})
