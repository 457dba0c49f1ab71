"""A vector times a plain matrix, whose rows stream: values are those of onnxruntime."""

import pytest
from small_graphs import Small, mismatches, onnxruntime_results

import mlc
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.compile import load_model
from mlc.driver.options import Options

STREAMED = [((1, 40), (40, 256)), ((1, 35), (35, 1003)), ((3, 1, 19), (3, 19, 300)), ((2, 1, 33), (2, 33, 9000))]
OTHERS = [((1, 40), (40, 64)), ((1, 16), (16, 512)), ((2, 40), (40, 512))]


def model(shapes: list[tuple]) -> Small:
    """A product, an addition and an activation for each pair of shapes."""
    small = Small()
    for a, b in shapes:
        small.out(small.op("Relu", small.op("Add", small.op("MatMul", small.x(*a), small.x(*b)), small.x(b[-1]))))
    return small


@pytest.mark.parametrize(("target", "threads"), [("native", 1), ("native", 2), ("x86-64-v3", 1)])
def test_values(target: str, threads: int) -> None:
    small = model(STREAMED + OTHERS)
    exe = mlc.compile(small.proto(), target=target, threads=threads, cache=False)
    assert mismatches(small, exe, onnxruntime_results(small)) == []


@pytest.mark.parametrize("target", ["x86-64-v3", "znver4"])
def test_which_products_stream(target: str) -> None:
    def strategies(shapes: list[tuple]) -> list[bool]:
        compilation = Compilation(load_model(model(shapes).proto(), {}), Options(target, threads=1))
        return ['strategy = "vector_matrix"' in text for text in compilation.schedule_texts().values()]

    assert strategies(STREAMED) == [True] * len(STREAMED)
    assert strategies(OTHERS) == [False] * len(OTHERS)


def test_every_pass_keeps_the_values() -> None:
    for target in ("native", "znver4"):
        assert mlc.compile(model(STREAMED[1:3]).proto(), target=target, threads=2, validate_each=True)
