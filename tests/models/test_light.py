"""Models that nobody tuned, at odd batches and prime picture sizes, beside onnxruntime; the whole sweep is `slow`."""

import light
import pytest
import zoo

import mlc

TOLERANCE = 1e-4
QUICK = [
    ("bvlc_alexnet", (3, 3, 101, 67), 1),
    ("inception_v2", (3, 3, 67, 97), 1),
    ("shufflenet", (3, 3, 101, 67), 2),
    ("zfnet512", (3, 3, 67, 97), 2),
]
SIZES = ((1, 3, 127, 131), (3, 3, 101, 67), (5, 3, 67, 97), (2, 3, 224, 224))
SWEEP = [(name, shape, threads) for name in light.NAMES for shape in SIZES for threads in (1, 2)]


def check(name: str, shape: zoo.Shape, threads: int, opt_level: int = 3) -> None:
    proto = light.light(name, shape)
    exe = mlc.compile(proto, threads=threads, opt_level=opt_level, cache=False)
    inputs = zoo.random_inputs(exe.inputs)
    (wanted,) = zoo.onnxruntime_results(proto, inputs)
    assert wanted.shape[0] == shape[0]
    (got,) = exe(inputs).values()
    assert zoo.error(got, wanted) <= TOLERANCE


@pytest.mark.parametrize(("name", "shape", "threads"), QUICK)
def test_values_are_onnxruntimes(name: str, shape: zoo.Shape, threads: int) -> None:
    check(name, shape, threads)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "shape", "threads"), SWEEP)
def test_sweep(name: str, shape: zoo.Shape, threads: int) -> None:
    check(name, shape, threads)
