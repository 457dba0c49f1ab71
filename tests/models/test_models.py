"""Every model, compiled, beside onnxruntime: values, determinism, thread counts, wrong inputs, and ways to run it."""

import ctypes
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zoo

import mlc

TOLERANCE = 1e-4
SIZES: dict[str, zoo.Shape] = {
    "rec": (1, 3, 48, 320),
    "cls": (1, 3, 48, 192),
    "magika": (1, 2048),
    "cls odd": (1, 3, 48, 131),
    "resnet50": (1, 3, 224, 224),
    "resnet50 prime": (1, 3, 67, 67),
    "squeezenet prime": (1, 3, 67, 67),
    "squeezenet": (1, 3, 224, 224),
    "resnet50 odd batch": (3, 3, 53, 61),
    "squeezenet odd batch": (3, 3, 53, 61),
}
Key = tuple[str, int, int, str]


@pytest.fixture(scope="module")
def compiled() -> Iterator[Callable[..., mlc.Executable]]:
    """`compiled(size, threads, opt_level, target)`: each is compiled once."""
    made: dict[Key, mlc.Executable] = {}

    def get(size: str, threads: int = 1, opt_level: int = 3, target: str = "native") -> mlc.Executable:
        key = (size, threads, opt_level, target)
        if key not in made:
            made[key] = mlc.compile(proto(size), threads=threads, opt_level=opt_level, target=target, cache=False)
        return made[key]

    yield get
    made.clear()


@lru_cache(1)
def proto(size: str) -> Any:
    """The model of a row of the table; the tests take row after row."""
    return zoo.model(size.split()[0], SIZES[size])


def run(exe: mlc.Executable, inputs: dict[str, Any]) -> list[Any]:
    """The outputs; what the model does not write stays NaN."""
    out = {spec.name: np.full(spec.shape, np.nan, spec.dtype) for spec in exe.outputs}
    exe(inputs, out=out)
    return list(out.values())


THREADS = {"cls": (1,), "cls odd": (2,), "resnet50": (2,), "resnet50 prime": (1,), "squeezenet": (2,)}
"""Where one number of threads is enough: another size of the same model is tried with 1 and 2."""


@pytest.mark.parametrize("size", [size for size in SIZES if "batch" not in size])
def test_values_are_onnxruntimes_and_repeat(compiled: Callable[..., mlc.Executable], size: str) -> None:
    inputs: dict[str, Any] = {}
    wanted: list[Any] = []
    for threads in THREADS.get(size, (1, 2)):
        exe = compiled(size, threads)
        inputs = inputs or zoo.random_inputs(exe.inputs)
        wanted = wanted or zoo.onnxruntime_results(proto(size), inputs)
        plan = exe.graph_json["plan"]
        assert plan["bytes"] <= 1.15 * plan["bound"]
        first = run(exe, inputs)
        for got, want in zip(first, wanted, strict=True):
            assert zoo.error(got, want) <= TOLERANCE
        for _ in range(3):
            assert [a.tobytes() for a in run(exe, inputs)] == [a.tobytes() for a in first]


@pytest.mark.parametrize(
    ("size", "other"),
    [
        ("resnet50 odd batch", {"target": "x86-64-v3"}),
        ("squeezenet odd batch", {}),
        ("squeezenet odd batch", {"opt_level": 0}),
    ],
)
def test_levels_and_targets_agree(compiled: Callable[..., mlc.Executable], size: str, other: dict[str, Any]) -> None:
    exe = compiled(size, **other)
    inputs = zoo.random_inputs(exe.inputs)
    (wanted,) = zoo.onnxruntime_results(proto(size), inputs)
    (got,) = run(exe, inputs)
    assert zoo.error(got, wanted) <= TOLERANCE


def test_ways_to_run_agree(compiled: Callable[..., mlc.Executable], tmp_path: Path) -> None:
    exe = compiled("squeezenet odd batch")
    inputs = zoo.random_inputs(exe.inputs)
    (wanted,) = run(exe, inputs)
    exe.save(tmp_path / "saved")
    for executor in ("aot", "steps", "graph"):
        again = mlc.load_executable(tmp_path / "saved", threads=2, executor=executor)
        assert np.array_equal(run(again, inputs)[0], wanted)
    exe.export(tmp_path / "net.so")
    assert np.array_equal(through_c(tmp_path / "net.so", list(inputs.values()), wanted.shape), wanted)


def through_c(path: Path, arrays: list[Any], shape: zoo.Shape) -> Any:
    """The output of an exported library, called as a C program does."""
    library = ctypes.CDLL(str(path))
    library.mlc_runtime_create.restype = ctypes.c_void_p
    runtime = ctypes.c_void_p(library.mlc_runtime_create(ctypes.c_int32(2)))
    out = np.full(shape, np.nan, np.float32)
    inputs = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
    outputs = (ctypes.c_void_p * 1)(out.ctypes.data)
    assert library.mlc_net_run(inputs, outputs, runtime) == 0
    library.mlc_runtime_destroy(runtime)
    return out


Wrong = Callable[[Any], dict[str, Any]]
WRONG: dict[str, tuple[str, Wrong]] = {
    "shape": ("expected input 'x' of shape", lambda x: {"x": x[..., 1:]}),
    "rank": ("expected input 'x' of shape", lambda x: {"x": x[0]}),
    "dtype": ("expected input 'x' of dtype float32", lambda x: {"x": x.astype(np.float64)}),
    "byte order": ("expected input 'x' of dtype float32", lambda x: {"x": x.astype(">f4")}),
    "missing": ("input 'x' is missing", lambda x: {}),
    "unknown": ("unknown input 'y'", lambda x: {"x": x, "y": x}),
    "list": ("expected input 'x' to be|expected input 'x' of", lambda x: {"x": [1.0]}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_inputs_are_refused_before_a_kernel_runs(compiled: Callable[..., mlc.Executable], wrong: str) -> None:
    message, make = WRONG[wrong]
    exe = compiled("cls")
    out = {spec.name: np.full(spec.shape, np.nan, spec.dtype) for spec in exe.outputs}
    with pytest.raises(ValueError, match=message):
        exe(make(np.zeros(exe.inputs[0].shape, np.float32)), out=out)
    assert all(np.isnan(array).all() for array in out.values())


def test_strided_inputs_are_copied(compiled: Callable[..., mlc.Executable]) -> None:
    exe = compiled("cls")
    x = np.random.default_rng(0).standard_normal((1, 48, 192, 3)).astype(np.float32)
    strided = x.transpose(0, 3, 1, 2)
    assert not strided.flags.c_contiguous
    assert np.array_equal(run(exe, {"x": strided})[0], run(exe, {"x": np.ascontiguousarray(strided)})[0])
