"""`mlc.quantize`: post-training quantisation of a float model to 8 bits, calibrated on inputs of the user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from xdsl.dialects.builtin import FloatAttr, FunctionType, f64
from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue

from mlc.dialects.graph.store import attach_store
from mlc.driver.models.bind_sizes import copied
from mlc.driver.models.compile import compile as compile_model
from mlc.driver.models.compile import load_model
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.driver.quantize.calibrate import METHODS, Histogram, Range
from mlc.driver.quantize.simulate import Simulation, Unit, relative_error, units_of
from mlc.frontends.common.model import Model, name_attrs
from mlc.passes.graph.precision.quantize import RANGE, WEIGHT_BITS, quantisable, range_attribute
from mlc.passes.graph.precision.to_mixed_precision import ERROR
from mlc.support.errors import UserError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from mlc.driver.models.load import Source

Sample: TypeAlias = "Mapping[str, ArrayLike]"
"""Typical inputs of a model, by name."""
PREPARE = (
    "graph-simplify",
    "graph-fold-scale-axis",
    "graph-simplify-expr",
    "graph-merge-branches",
    "graph-fold-constant",
)
"""Passes that move norms, scales and branches into the weights before those are quantised."""
SEARCH = "search"
"""The method that tries the ranges of all others for each layer."""


def quantize(
    model: Source,
    inputs: Iterable[Sample] | Sample,
    method: str = "minmax",
    *,
    percentile: float = 99.99,
    first: bool = True,
    last: bool = True,
    depthwise: bool = False,
    budget: float | None = None,
    weight_bits: int = 8,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Model:
    """
    The model with convolutions and dense layers in 8 bits: unsigned data, signed weights with a scale per channel.

    `inputs` are typical inputs, each a dict of name -> array; they give the ranges of the intermediate values.
    `method`: "minmax" takes all that was seen, "percentile" this part of the values, "kl" the range that keeps most of
    their distribution, "mse" the one whose levels are nearest to them; "search" takes for each layer the one of these
    that costs least at the model's outputs. `first` and `last` say whether the first and the last layer are quantised
    too, `depthwise` whether depthwise convolutions are: that is faster, and with one scale for channels of different
    ranges less accurate; other convolutions of groups never are. With a `budget`, layers stay in floats, the most
    sensitive ones for their work first, until the error that is simulated on the inputs is below it. `weight_bits=7`
    keeps weights from -63 to 63: CPUs without dot products of bytes (AVX2 alone) multiply these up to twice as fast
    (docs/quantization.md). The module's attribute `mlc.relative_error` (`exe.report["relative_error"]`) is the root
    mean square of the error, measured on the inputs.

    Raises UserError for an unknown method, a percentile, budget or number of bits out of range, no inputs, and a model
    without layers that can be quantised.
    """
    _check_options(method, percentile, budget, weight_bits)
    weight_bits = int(weight_bits)
    samples = _samples(inputs)
    result = copied(load_model(model, shapes))
    attach_store(result.module, result.weights)
    ctx = make_context()
    run_passes(result.module, ctx, PREPARE)
    ops = [op for op in result.main.body.block.ops if quantisable(op, depthwise)]
    count = len(ops)
    ops = ops[0 if first else 1 : count if last else -1]
    if count and not ops:
        ends = [name for name, kept in (("first", first), ("last", last)) if not kept]
        options = " and ".join(f"{name}=False" for name in ends)
        others = f"expected layers besides the {' and the '.join(ends)}, which {options} leave out"
        raise UserError(f"{others}, but the model has only {count} to quantise")
    if not ops:
        raise UserError("expected a model with convolutions or dense layers by constant weights, but found none")
    units = units_of(ops)
    histograms, expected = observe(result, [unit.value for unit in units], samples)
    for unit, limits in _chosen(result, units, histograms, samples, expected, method, percentile, budget, weight_bits):
        for op in unit.layers:
            op.attributes[RANGE] = range_attribute(*limits)
    run_passes(result.module, ctx, [f"graph-quantize{{weight-bits={weight_bits}}}", "graph-canonicalize"])
    found = _outputs(result, samples)
    result.module.attributes[ERROR] = FloatAttr(relative_error(expected, found), f64)
    return result


def _check_options(method: str, percentile: float, budget: float | None, weight_bits: int) -> None:
    if method not in (*METHODS, SEARCH):
        raise UserError(f"expected a method of {', '.join((*METHODS, SEARCH))}, but got {method!r}")
    if not 50 < percentile <= 100:
        raise UserError(f"expected a percentile above 50 and up to 100, but got {percentile!r}")
    if budget is not None and not 0 <= budget < 1:
        raise UserError(f"expected a budget from 0 to 1, a relative error, but got {budget!r}")
    if weight_bits not in WEIGHT_BITS:
        raise UserError(f"expected weight_bits of 7 or 8, but got {weight_bits!r}")


def _samples(inputs: Iterable[Sample] | Sample) -> list[Sample]:
    several = cast(Iterable[Sample], [inputs] if isinstance(inputs, Mapping) else inputs)
    samples = list(several)
    if not samples:
        raise UserError("expected at least one dict of inputs to calibrate with, but got none")
    return samples


def _chosen(
    model: Model,
    units: Sequence[Unit],
    histograms: Sequence[Histogram],
    samples: Sequence[Sample],
    expected: Sequence[Any],
    method: str,
    percentile: float,
    budget: float | None,
    weight_bits: int,
) -> list[tuple[Unit, Range]]:
    """The units to quantise, each with its range."""
    methods = list(METHODS.values()) if method == SEARCH else [METHODS[method]]
    candidates = [[choose(histogram, percentile) for choose in methods] for histogram in histograms]
    if method != SEARCH and budget is None:
        return [(unit, ranges[0]) for unit, ranges in zip(units, candidates, strict=True)]
    simulation = Simulation(model, units, samples, expected, weight_bits)
    ranges = simulation.best_ranges(candidates)
    inside = range(len(units)) if budget is None else simulation.within(budget, ranges, units)
    return [(units[k], ranges[k]) for k in inside]


def observe(
    model: Model, values: Sequence[SSAValue], samples: Sequence[Sample]
) -> tuple[list[Histogram], list[list[Any]]]:
    """A histogram of each value over the samples, and the model's outputs of each sample."""
    probe, count = _with_outputs(model, values), len(model.outputs)
    exe = compile_model(probe)
    histograms = [Histogram() for _ in values]
    outputs: list[list[Any]] = []
    for sample in samples:
        arrays = list(exe(sample).values())
        outputs.append([np.array(a) for a in arrays[:count]])
        for histogram, array in zip(histograms, arrays[count:], strict=True):
            histogram.add(array)
    return histograms, outputs


def _with_outputs(model: Model, values: Sequence[SSAValue]) -> Model:
    """A copy of a model that also returns these values."""
    clones: dict[SSAValue, SSAValue] = {}
    module = model.module.clone(clones)
    probe = Model(module, model.weights)
    main = probe.main
    end = main.body.block.last_op
    assert isinstance(end, ReturnOp)
    returned = [*end.operands, *(clones[v] for v in values)]
    names = [*model.outputs, *(f"mlc.value{k}" for k in range(len(values)))]
    main.body.block.insert_op_before(ReturnOp(*returned), end)
    end.detach()
    end.erase()
    main.properties["function_type"] = FunctionType.from_lists(
        list(main.function_type.inputs), [v.type for v in returned]
    )
    main.res_attrs = name_attrs(names)
    return probe


def _outputs(model: Model, samples: Sequence[Sample]) -> list[list[Any]]:
    exe = compile_model(model)
    return [[np.array(a) for a in exe(sample).values()] for sample in samples]
