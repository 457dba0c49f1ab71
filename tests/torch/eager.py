"""Many small functions of the same inputs as one module, which eager PyTorch and mlc compute."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch frontend need torch")

import mlc  # noqa: E402
from mlc.frontends.torch.arrays import to_numpy  # noqa: E402


class Cases(torch.nn.Module):
    """Each function's result under its name."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]], modules: Mapping[str, Any] | None = None):
        super().__init__()
        self.functions = dict(functions)
        self.parts = torch.nn.ModuleDict(modules or {})

    def forward(self, *inputs: Any) -> dict[str, Any]:
        results = {name: function(*inputs) for name, function in self.functions.items()}
        return {**results, **{name: part(inputs[0]) for name, part in self.parts.items()}}


def leaves(value: Any, name: str) -> dict[str, Any]:
    """The tensors of a nested result, by the names that mlc gives them."""
    if isinstance(value, torch.Tensor):
        return {name: value}
    if value is None:
        return {}
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    found = {}
    for key, one in pairs:
        found |= leaves(one, f"{name}_{key}" if name else str(key) if isinstance(key, str) else f"output_{key}")
    return found


def check(got: Mapping[str, Any], wanted: Mapping[str, Any], rtol: float = 1e-4, atol: float = 1e-4) -> None:
    """Every output as eager's: floats within the tolerance, all others exactly."""
    assert list(got) == list(wanted)
    for name, tensor in wanted.items():
        expected, actual = to_numpy(tensor), got[name]
        assert actual.dtype == expected.dtype, name
        if expected.dtype.kind in "fV":
            wide = [a.astype(np.float64) for a in (actual, expected)]
            np.testing.assert_allclose(*wide, rtol=rtol, atol=atol, err_msg=name)
        else:
            np.testing.assert_array_equal(actual, expected, err_msg=name)


def eager(module: Any, inputs: Sequence[Any]) -> dict[str, Any]:
    """What a module computes, by the names that mlc gives its outputs."""
    with torch.no_grad():
        return {name or "output": value for name, value in leaves(module(*inputs), "").items()}


def fed(exe: Any, inputs: Sequence[Any]) -> dict[str, Any]:
    """What an executable computes of tensors in the order of its inputs."""
    return exe({spec.name: to_numpy(value) for spec, value in zip(exe.inputs, inputs, strict=True)})


def run_module(module: Any, inputs: Sequence[Any], **options: Any) -> None:
    """A module on its inputs: mlc computes what eager does."""
    exe = mlc.compile(mlc.from_torch(module.eval(), inputs), threads=1)
    check(fed(exe, inputs), eager(module, inputs), **options)


def run_cases(
    functions: Mapping[str, Callable[..., Any]], inputs: Sequence[Any], modules: Any = None, **options: Any
) -> None:
    """The functions of all inputs, and modules of the first, in one program."""
    run_module(Cases(functions, modules), inputs, **options)
