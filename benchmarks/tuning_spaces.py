"""
Spaces of schedules that are searched exhaustively: what tests and benchmarks of tuners search in.

    python benchmarks/tuning_spaces.py measure FOLDER [NAME ...]    # e.g. tests/data/tuning; minutes a space
    python benchmarks/tuning_spaces.py list

`measure` builds every candidate of a space for one thread of this machine, checks its output, and times all of them in
turns, `_ROUNDS` times: the least time of a candidate counts, since what disturbs a measurement only ever adds to it.
Each space becomes FOLDER/NAME.npz: `space` (JSON), `seconds` (float32, infinite where the schedule is refused),
`flops`, `machine`.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import mlc
from mlc import te
from mlc.support.errors import UserError
from mlc.targets.target import Target
from mlc.tuning.space import Knob, Part, Space, Values

_ROUNDS = 12
_BLOCK_SECONDS = 0.0012
_SLOW = 4.0  # times the fastest of the first round: such candidates are not timed again

Schedule = Any  # the methods of mlc.Schedule are made at run time


@dataclass(frozen=True)
class Case:
    """A kernel, its space, and the function that schedules a candidate."""

    func: Any
    space: Space
    flops: int
    schedule: Callable[[Schedule, Values], None]


# --- matrix products: C[i, j] = sum over k of A[i, k] * B[k, j] ---


def dense(rows: int, columns: int, depth: int) -> Case:
    """A matrix product whose B may be packed, with a register tile, blocks of rows and an unrolled reduction."""
    a, b = te.placeholder((rows, depth), name="A"), te.placeholder((depth, columns), name="B")
    k = te.reduce_axis(depth, "k")
    c = te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    tiles = tuple(n for n in (1, 2, 3, 4, 6, 8, 12) if n <= rows)
    knobs = (
        Knob("tile_rows", tiles, max(n for n in tiles if n <= 6)),
        Knob("tile_columns", tuple(n for n in (8, 16, 32, 48, 64) if n <= columns), 64),
        Knob("row_block", (1, 2, 4, 8), 1),
        Knob("unroll", (1, 2, 4), 1),
        Knob("pack", ("none", "panel", "whole"), "none"),
        Knob("order", ((0, 1), (1, 0)), (0, 1)),
    )
    return Case(
        te.func("dense", [a, b], [c]), Space((Part("dense", knobs),)), 2 * rows * columns * depth, _dense_schedule
    )


def _dense_schedule(s: Schedule, values: Values) -> None:
    i, j, k = s.loops(s["C"])
    i_out, i_in = s.split(i, [None, values["tile_rows"]])
    j_out, j_in = s.split(j, [None, values["tile_columns"]])
    block, i_out = s.split(i_out, [None, values["row_block"]])
    k_out, k_in = s.split(k, [None, values["unroll"]])
    outer = [block, j_out] if values["order"] == (0, 1) else [j_out, block]
    s.reorder(*outer, i_out, k_out, k_in, i_in, j_in)
    if values["pack"] == "panel":
        copy = s.cache_read(s["C"], 1, "local")
        s.compute_at(copy, outer[-1])
        s.vectorize(s.loops(copy)[-1])
    elif values["pack"] == "whole":
        size = values["tile_columns"]
        copy = s.cache_read(s["C"], 1, "shared")
        s.transform_layout(copy, lambda k, j: [j // size, k, j % size])
        _, lanes = s.split(s.loops(copy)[-1], [None, size])
        s.vectorize(lanes)
    init, _ = s.decompose_reduction(s["C"], k_out)
    s.vectorize(i_in, j_in)
    s.unroll(k_in)
    s.vectorize(*s.loops(init)[-2:])


# --- convolutions, 16 channels a block: y[o, i, j, f] = sum over c, r, s, m of x[c, i', j', m] w[o, c, r, s, m, f]


def conv(channels: int, filters: int, size: int, window: int, stride: int = 1) -> Case:
    """A convolution (NCHW16c, OIHW16i16o), its input padded already, to a picture of size x size."""
    blocks, groups, width = channels // 16, filters // 16, (size - 1) * stride + window
    x = te.placeholder((blocks, width, width, 16), name="x")
    w = te.placeholder((groups, blocks, window, window, 16, 16), name="w")
    c, r, s, m = (te.reduce_axis(n, name) for n, name in ((blocks, "c"), (window, "r"), (window, "s"), (16, "m")))
    y = te.compute(
        (groups, size, size, 16),
        lambda o, i, j, f: te.sum(x[c, i * stride + r, j * stride + s, m] * w[o, c, r, s, m, f], axis=(c, r, s, m)),
        name="y",
    )
    orders = ((0, 1, 2, 3), (1, 2, 0, 3), (0, 1, 3, 2)) if window > 1 else ((0, 1, 2, 3),)
    tiles = tuple(n for n in (1, 2, 3, 4, 6, 7, 10, 12, 14, 20, 28) if n <= size)
    knobs = (
        Knob("tile_pixels", tiles, max(n for n in tiles if n <= 14 and size % n == 0)),
        Knob("tile_filters", tuple(n for n in (1, 2, 3, 4) if n <= groups), 2),
        Knob("row_block", tuple(n for n in (1, 2, 7) if n <= size), 1),
        Knob("reduce_order", orders, (0, 1, 2, 3)),
        Knob("unroll", ("off", "2", "4", "inner") if window > 1 else ("off", "2", "4", "8", "inner"), "off"),
        Knob("order", ((0, 1), (1, 0)), (0, 1)),
    )
    flops = 2 * channels * filters * size * size * window * window
    return Case(te.func("conv", [x, w], [y]), Space((Part("conv", knobs),)), flops, _conv_schedule)


def _conv_schedule(s: Schedule, values: Values) -> None:
    o, i, j, lanes, *reduce = s.loops(s["y"])
    o_out, o_in = s.split(o, [None, values["tile_filters"]])
    j_out, j_in = s.split(j, [None, values["tile_pixels"]])
    i_out, i_in = s.split(i, [None, values["row_block"]])
    order = values["reduce_order"]
    assert isinstance(order, tuple)
    reduce = [reduce[n] for n in order]
    if values["unroll"] in ("2", "4", "8"):
        at = reduce.index(reduce[order.index(3)])
        outer, inner = s.split(reduce[at], [None, int(values["unroll"])])
        reduce[at : at + 1] = [outer, inner]
        unrolled = inner
    else:
        unrolled = reduce[-1] if values["unroll"] == "inner" else None
    grid = [i_out, o_out] if values["order"] == (0, 1) else [o_out, i_out]
    s.reorder(*grid, i_in, j_out, *reduce, j_in, o_in, lanes)
    init, _ = s.decompose_reduction(s["y"], reduce[0])
    s.vectorize(j_in, o_in, lanes)
    if unrolled is not None:
        s.unroll(unrolled)
    s.vectorize(*s.loops(init)[-3:])


CASES: dict[str, Callable[[], Case]] = {
    "dense_96x192x256": lambda: dense(96, 192, 256),
    "dense_49x384x128": lambda: dense(49, 384, 128),
    "dense_16x1024x256": lambda: dense(16, 1024, 256),
    "dense_128x256x64": lambda: dense(128, 256, 64),
    "dense_8x512x768": lambda: dense(8, 512, 768),
    "conv_32x64x14x3": lambda: conv(32, 64, 14, 3),
    "conv_64x128x14x1": lambda: conv(64, 128, 14, 1),
    "conv_32x64x14x3s2": lambda: conv(32, 64, 14, 3, 2),
    "conv_64x64x28x1": lambda: conv(64, 64, 28, 1),
    "conv_128x128x7x3": lambda: conv(128, 128, 7, 3),
    "conv_32x32x28x3": lambda: conv(32, 32, 28, 3),
    "conv_16x64x12x5": lambda: conv(16, 64, 12, 5),
}


def scheduled(case: Case, index: int) -> Schedule:
    """The schedule of a candidate; UserError where a directive refuses it."""
    schedule = mlc.Schedule(case.func)
    case.schedule(schedule, case.space[index])
    return schedule


def _arrays(case: Case, operator: Any) -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(spec.shape, np.float32) for spec in operator.inputs]
    return inputs, np.empty(operator.outputs[0].shape, np.float32)


def _built(case: Case) -> Iterator[tuple[int, Any]]:
    """Each candidate that is accepted, built, with its number; its output is checked against the first one's."""
    inputs, expected = None, None
    for index in range(case.space.size):
        try:
            operator = mlc.build(scheduled(case, index), threads=1)
        except UserError as error:
            print(f"  {index}: {error}", flush=True)
            continue
        if inputs is None:
            inputs, out = _arrays(case, operator)
            expected = mlc.build(case.func, threads=1)(*inputs)
        out = operator(*inputs)
        np.testing.assert_allclose(out, expected, rtol=1e-3, atol=1e-3 * float(np.abs(expected).max()))
        yield index, operator


def _block(operator: Any, inputs: list[np.ndarray], out: np.ndarray) -> float:
    """The least seconds of a call in a block of calls."""
    end, least = time.perf_counter() + _BLOCK_SECONDS, float("inf")
    operator(*inputs, out=out)
    while True:
        start = time.perf_counter()
        operator(*inputs, out=out)
        now = time.perf_counter()
        least = min(least, now - start)
        if now > end:
            return least


def measure(case: Case) -> np.ndarray:
    """The seconds of each candidate: the least of `_ROUNDS` blocks in turns; infinite where it is refused."""
    seconds = np.full(case.space.size, np.inf)
    operators = dict(_built(case))
    inputs, out = _arrays(case, next(iter(operators.values())))
    for _ in range(_ROUNDS):
        limit = _SLOW * seconds.min()
        for index, operator in operators.items():
            if seconds[index] <= limit or np.isinf(seconds[index]):
                seconds[index] = min(seconds[index], _block(operator, inputs, out))
    return seconds.astype(np.float32)


def _save(path: Path, case: Case, seconds: np.ndarray) -> None:
    parts = [
        {"strategy": part.strategy, "knobs": [[k.name, k.candidates, k.default] for k in part.knobs]}
        for part in case.space.parts
    ]
    machine = f"{Target.parse('native').cpu}, 1 thread"
    np.savez_compressed(path, space=json.dumps(parts), seconds=seconds, flops=case.flops, machine=machine)


def _measure_all(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        start, case = time.time(), CASES[name]()
        print(f"{name}: {case.space.size} candidates", flush=True)
        seconds = measure(case)
        _save(folder / f"{name}.npz", case, seconds)
        best, near = seconds.min(), int((seconds <= seconds.min() / 0.95).sum())
        default = seconds[case.space.index_of(case.space.default)]
        print(
            f"  best {case.flops / best / 1e9:.1f} GFLOP/s, {near} candidates within 95 % of it, default at "
            f"{100 * best / default:.0f} %, {time.time() - start:.0f} s",
            flush=True,
        )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["measure", "list"])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    if args.command == "list":
        print("\n".join(f"{name}: {case().space.size} candidates" for name, case in CASES.items()))
    elif args.folder is None:
        parser.error("expected a folder to write into")
    else:
        _measure_all(args.folder, args.names or list(CASES))


if __name__ == "__main__":
    main()
