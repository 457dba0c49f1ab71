"""The list of kinds, and the decorator that adds one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import onnx

from .net import Net

Build = Callable[[Net], str | tuple[str, ...]]
KINDS: dict[str, "Kind"] = {}
"""The kinds by name, in the order of their families."""


@dataclass(frozen=True)
class Drawn:
    """A model of a kind: what was drawn, the model, its inputs by name."""

    sizes: str
    model: onnx.ModelProto
    inputs: dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """A kind of work; `build` draws its sizes, adds its nodes, and returns the names of its results."""

    name: str
    build: Build
    tolerance: float
    """Greatest error over greatest magnitude that is still the same value."""

    def draw(self, seed: int, smallest: bool = False) -> Drawn:
        """The model of a seed."""
        net = Net(f"{seed} {self.name}", smallest)
        results = self.build(net)
        model = net.model(*((results,) if isinstance(results, str) else results))
        return Drawn(" ".join(f"{name}={value}" for name, value in net.drawn.items()), model, net.inputs)


def kind(name: str, tolerance: float = 1e-4) -> Callable[[Build], Build]:
    """Add a kind, "family/what is particular"."""

    def add(build: Build) -> Build:
        if name in KINDS:
            raise ValueError(f"expected one kind of the name '{name}', but got two")
        KINDS[name] = Kind(name, build, tolerance)
        return build

    return add
