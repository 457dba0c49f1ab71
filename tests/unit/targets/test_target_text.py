"""The forms of a target: names, TVM's texts and dictionaries, objects; one text inside."""

from typing import Any

import numpy as np
import pytest

import mlc
from mlc.driver.options import Options
from mlc.support.errors import UserError

FORMS: list[tuple[Any, str]] = [
    ("native", "native"),
    ("c", "c"),
    ({"kind": "c"}, "c"),
    ("x86-64-v3", "x86-64-v3"),
    ("znver4,-avx512bf16", "znver4,-avx512bf16"),
    ("llvm -mcpu=znver4 -mattr=+avx512f,-fma", "znver4,+avx512f,-fma"),
    ("llvm -mtriple=aarch64-linux-gnu", "aarch64"),
    ("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v2", "x86-64-v2"),
    ({"kind": "llvm", "mcpu": "skylake", "mattr": ["-fma", "+aes"]}, "skylake,-fma,+aes"),
    ("x86-64-v2 -host=x86-64-v3", "x86-64-v2 -host=x86-64-v3"),
    ("llvm -mcpu=x86-64-v2 -host=llvm -mcpu=x86-64-v3", "x86-64-v2 -host=x86-64-v3"),
    ({"kind": "llvm", "mcpu": "x86-64-v2", "host": {"kind": "llvm", "mcpu": "znver2"}}, "x86-64-v2 -host=znver2"),
]


@pytest.mark.parametrize(("given", "text"), FORMS)
def test_every_form_has_one_text_which_gives_an_equal_target(given: Any, text: str):
    target = mlc.Target(given)
    assert str(target) == text
    assert mlc.Target(text) == target == mlc.Target(target)
    assert hash(mlc.Target(text)) == hash(target)
    assert repr(target) == f"mlc.Target({text!r})"


@pytest.mark.parametrize(("given", "text"), FORMS)
def test_the_options_of_a_compilation_hold_the_text(given: Any, text: str):
    assert Options(given) == Options(text)
    assert Options(mlc.Target(given)).model_key() == Options(text).model_key()


def test_a_target_with_a_host():
    target = mlc.Target("x86-64-v2", host="x86-64-v3")
    assert target.host == mlc.Target("x86-64-v3")
    assert target.features == mlc.Target("x86-64-v2").features
    assert Options(target).settings()["target"] == "x86-64-v2"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "expected target to be a name like 'native' or 'x86-64-v3', but got 3"),
        ("llvm -mcpu=zen4", "expected mcpu to be one of native, generic, .*, but got 'zen4'"),
        ("llvm -mcpu=znver", "did you mean 'znver"),
        ("llvm -libs=mkl", "expected options of a target among mcpu, mattr, mtriple, host, but got 'libs'"),
        ("llvm mcpu", "expected options like -mcpu=znver4 in a target, but got 'mcpu' in 'llvm mcpu'"),
        ("llvm -mattr=avx2", "expected a target feature like [+]avx2 or -avx512f, but got 'avx2'"),
        ("c -mcpu=znver4", "but got kind 'c' with options"),
        ("c,+avx2", "expected no features of target 'c'"),
        ({"kind": "cuda"}, "expected a target like .*, but got kind 'cuda'"),
        ({"mcpu": "znver4"}, "but got kind None"),
        ("llvm -mcpu=znver4 -mtriple=aarch64-linux-gnu", "triple of target 'znver4' to be x86_64-.*, but got 'aarch64"),
        ("llvm -mtriple=riscv64-linux-gnu", "expected a triple of x86_64 or aarch64, but got 'riscv64-linux-gnu'"),
        ("x86-64-v2 -host=x86-64-v9", "but got 'x86-64-v9'"),
    ],
)
def test_wrong_targets(given: Any, message: str):
    with pytest.raises(UserError, match=message):
        mlc.Target(given)


def test_schedule_and_build_take_a_target():
    te = mlc.te
    x = te.placeholder((8,), name="x")
    y = te.compute((8,), lambda i: x[i] + x[i], name="y")
    schedule = mlc.Schedule(te.func("double", [x], [y]), target=mlc.Target("llvm -mcpu=x86-64-v2"))
    assert schedule.target == "x86-64-v2"
    (i,) = schedule.loops(schedule["y"])
    with pytest.raises(UserError, match=r"blockIdx\.x"):
        schedule.bind(i, "blockIdx.x")
    for target in (mlc.Target("x86-64-v2"), {"kind": "c"}):
        double = mlc.build([x, y], target=target, threads=1, cache=False)
        assert double(np.arange(8, dtype=np.float32)).tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
