"""
The choice of the layers of a float model to quantise, and of their ranges, by the error at the model's outputs.

One program computes the model with every layer's bytes simulated in floats. An input of it says for each value that
layers read whether it is quantised, by which scale and zero point:

    x -> x + on * ((clip (round (x / scale) + zero) - zero) * scale - x)
    conv2d x, w -> y + on * (conv2d x, (dequantize (quantize w)) - y), where y = conv2d x, w

so that trying a choice takes a run of it, not a compilation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import FunctionType
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.graph import (
    AddOp,
    ClipOp,
    Conv2dOp,
    DenseOp,
    DivideOp,
    MultiplyOp,
    ReshapeOp,
    RoundOp,
    SliceOp,
    SubtractOp,
    shape_of,
    tensor,
)
from mlc.driver.models.compile import compile as compile_model
from mlc.driver.quantize.calibrate import Range
from mlc.frontends.common.model import Model, name_attrs
from mlc.passes.graph.precision.quantize import LEVELS, Quantizer, parameters

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

SETTINGS = "mlc.settings"
"""The input of f32 (units, 3): for each unit whether it is quantised (0 or 1), its scale, its zero point."""
SENSITIVITY_SAMPLES = 4
"""Samples on which the error of a single layer is measured."""


@dataclass
class Unit:
    """A value and the layers that read it, which are quantised together or not at all."""

    value: SSAValue
    layers: list[Operation]

    @property
    def work(self) -> int:
        """The scalar products that its layers compute, without those over symbolic sizes."""
        return sum(_products(op) for op in self.layers)


def units_of(layers: Sequence[Operation]) -> list[Unit]:
    """The layers grouped by the value that they read."""
    units: dict[SSAValue, Unit] = {}
    for op in layers:
        units.setdefault(op.operands[0], Unit(op.operands[0], [])).layers.append(op)
    return list(units.values())


def _products(op: Operation) -> int:
    sizes = [*shape_of(op.results[0].type), *shape_of(op.operands[1].type)[1:]]
    return prod(n for n in sizes if isinstance(n, int))


def relative_error(expected: Sequence[Sequence[Any]], found: Sequence[Sequence[Any]]) -> float:
    """The largest relative error of an output over all samples: root mean square."""
    errors = [0.0]
    for output in range(len(expected[0])):
        a = np.concatenate([np.ravel(arrays[output]).astype(np.float64) for arrays in expected])
        b = np.concatenate([np.ravel(arrays[output]).astype(np.float64) for arrays in found])
        norm = float(np.sqrt(np.mean(a * a)))
        errors.append(float(np.sqrt(np.mean((a - b) ** 2))) / norm if norm else 0.0)
    return max(errors)


class Simulation:
    """The simulating program, the samples that it runs on, and the float model's outputs of them."""

    def __init__(
        self,
        model: Model,
        units: Sequence[Unit],
        samples: Sequence[Mapping[str, ArrayLike]],
        outputs: Sequence[Sequence[Any]],
        weight_bits: int = 8,
    ) -> None:
        self.samples, self.outputs = samples, outputs
        self.count = len(units)
        self.exe = compile_model(_simulated(model, units, weight_bits))

    def error(self, ranges: Mapping[int, Range], most: int | None = None) -> float:
        """The relative error if these units are quantised by these ranges and the others stay in floats."""
        settings = np.zeros((self.count, 3), np.float32)
        settings[:, 1] = 1.0
        for unit, limits in ranges.items():
            settings[unit] = (1.0, *parameters(*limits))
        found = [[np.array(a) for a in self.exe({**s, SETTINGS: settings}).values()] for s in self.samples[:most]]
        return relative_error(self.outputs[:most], found)

    def best_ranges(self, candidates: Sequence[Sequence[Range]]) -> list[Range]:
        """For each unit the candidate range with the least error when that unit alone is quantised."""
        best: list[Range] = []
        for unit, ranges in enumerate(candidates):
            different = list(dict.fromkeys(ranges))
            errors = (
                [self.error({unit: one}, SENSITIVITY_SAMPLES) for one in different] if len(different) > 1 else [0.0]
            )
            best.append(different[int(np.argmin(errors))])
        return best

    def within(self, budget: float, ranges: Sequence[Range], units: Sequence[Unit]) -> list[int]:
        """The units to quantise: one after the other, the least error for its work first, while the budget holds."""
        everything = range(self.count)
        if self.error({k: ranges[k] for k in everything}) <= budget:
            return list(everything)
        cost = [self.error({k: ranges[k]}, SENSITIVITY_SAMPLES) ** 2 / units[k].work for k in everything]
        inside: dict[int, Range] = {}
        for k in sorted(everything, key=lambda k: cost[k]):
            if self.error({**inside, k: ranges[k]}) <= budget:
                inside[k] = ranges[k]
        return sorted(inside)


def _simulated(model: Model, units: Sequence[Unit], weight_bits: int) -> Model:
    """A copy of a model with the input `SETTINGS`, whose units are simulated as it says."""
    clones: dict[SSAValue, SSAValue] = {}
    copy = Model(model.module.clone(clones), model.weights)
    main, names = copy.main, copy.inputs
    block = main.body.block
    settings = block.insert_arg(tensor((len(units), 3)), len(block.args))
    for k, unit in reversed(list(enumerate(units))):  # the weights of what makes a value come before its own rounding
        layers = [owner for op in unit.layers if isinstance(owner := clones[op.results[0]].owner, Conv2dOp | DenseOp)]
        _Simulator(block, settings, k, weight_bits).unit(clones[unit.value], layers)
    main.properties["function_type"] = FunctionType.from_lists(
        [v.type for v in block.args], list(main.function_type.outputs)
    )
    main.properties["arg_attrs"] = name_attrs([*names, SETTINGS])
    return copy


class _Simulator(Quantizer):
    """Inserts the simulation of one unit."""

    def __init__(self, block: Block, settings: SSAValue, number: int, weight_bits: int) -> None:
        super().__init__(block, weight_bits)
        self.settings, self.number = settings, number

    def unit(self, value: SSAValue, layers: Sequence[Conv2dOp | DenseOp]) -> None:
        """All readers of the value read it simulated; layers multiply simulated weights."""
        readers = self.readers(value)
        self.insert_behind(value)
        on, scale, zero = (self.setting(k) for k in range(3))
        levels = self.rw.make(RoundOp, self.rw.make(DivideOp, value, scale))
        levels = self.rw.make(ClipOp, self.rw.make(AddOp, levels, zero), min=0.0, max=float(LEVELS))
        rounded = self.rw.make(MultiplyOp, self.rw.make(SubtractOp, levels, zero), scale)
        data = self.blend(value, rounded, on)
        for use in readers:
            use.operation.operands[use.index] = data
        for op in layers:
            self.layer(op, on)

    def layer(self, op: Conv2dOp | DenseOp, on: SSAValue) -> None:
        """Both products, blended."""
        y = op.results[0]
        readers = list(y.uses)
        self.rw.at = op
        weights = self.constant(op.operands[1], self.weight_scale(op.operands[1]), 0, "int8")
        self.rw.at = op.next_op
        attrs = {name: getattr(op, name) for name in op.declared}
        mixed = self.blend(y, self.rw.make(type(op), op.operands[0], weights, **attrs), on)
        for use in readers:
            use.operation.operands[use.index] = mixed

    def blend(self, a: SSAValue, b: SSAValue, on: SSAValue) -> SSAValue:
        """`a + on * (b - a)`."""
        return self.rw.make(AddOp, a, self.rw.make(MultiplyOp, self.rw.make(SubtractOp, b, a), on))

    def setting(self, column: int) -> SSAValue:
        """One number of the unit's settings."""
        begin = (self.number, column)
        end = (self.number + 1, column + 1)
        one = self.rw.make(SliceOp, self.settings, begin=begin, end=end, strides=(1, 1))
        return self.rw.make(ReshapeOp, one, shape=())
