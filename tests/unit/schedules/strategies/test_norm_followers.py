"""Elementwise ops behind a norm of planes are computed by its kernel, and so are the divisors of an average pool."""

import re

import pytest
from small_graphs import Small, mismatches, onnxruntime_results

import mlc
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.compile import load_model
from mlc.driver.options import Options


def norms() -> Small:
    """Norms of planes with an activation, with a sum and an activation, and with two readers."""
    s = Small()

    def norm(*shape: int) -> str:
        return s.op("InstanceNormalization", s.x(*shape), s.w(shape[1]), s.w(shape[1]))

    s.out(s.op("Relu", norm(1, 5, 9, 11)))
    s.out(s.op("LeakyRelu", s.op("Add", norm(2, 8, 7, 16), s.x(2, 8, 7, 16))))
    both = norm(1, 3, 40)
    s.out(s.op("Add", s.op("Sigmoid", both), both))
    return s


def pools() -> Small:
    """Average pools whose windows overlap the border: in one direction, in both, and behind it a sum."""
    s = Small()
    for shape, window, pads in (((1, 3, 17, 40), [3, 3], [1, 1, 1, 1]), ((2, 16, 9, 9), [1, 5], [0, 2, 0, 1])):
        y = s.op("AveragePool", s.x(*shape), kernel_shape=window, pads=pads)
        s.out(s.op("Add", y, s.w(1)))
    return s


@pytest.mark.parametrize("make", [norms, pools])
@pytest.mark.parametrize(("target", "threads"), [("native", 1), ("native", 2), ("x86-64-v2", 1)])
def test_values(make, target: str, threads: int) -> None:
    small = make()
    exe = mlc.compile(small.proto(), target=target, threads=threads, cache=False)
    assert mismatches(small, exe, onnxruntime_results(small)) == []


def schedules(small: Small) -> dict[str, str]:
    return Compilation(load_model(small.proto(), {}), Options("x86-64-v3", threads=1)).schedule_texts()


def test_what_is_behind_a_norm_is_in_its_kernel() -> None:
    names = sorted(re.sub(r"_[0-9a-f]{8}$", "", name) for name in schedules(norms()))
    assert names == ["instance_norm_add_leaky_relu", "instance_norm_relu", "instance_norm_sigmoid_add"]


def test_sums_of_a_pool_are_divided_in_registers() -> None:
    texts = [text for name, text in schedules(pools()).items() if "pool" in name]
    assert len(texts) == 2
    assert all("sched.reverse_compute_at %avg_pool2d" in text or "%add at" in text for text in texts)


@pytest.mark.parametrize("make", [norms, pools])
def test_every_pass_keeps_the_values(make) -> None:
    assert mlc.compile(make().proto(), threads=2, validate_each=True)
