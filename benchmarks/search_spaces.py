"""
Spaces of schedules that are searched exhaustively: what tests and benchmarks of tuners search in.

    python benchmarks/search_spaces.py measure FOLDER [NAME ...]    # e.g. tests/data/tuning; minutes a space
    python benchmarks/search_spaces.py features FOLDER [NAME ...]   # again, after a change of the features
    python benchmarks/search_spaces.py list

`measure` builds every candidate of a space for one thread of this machine, checks its output, and times all of them in
turns, `_ROUNDS` times, in seconds of the processor: other processes may wait for it, too. The least time of a candidate
counts, since what disturbs a measurement only ever adds to it. The fastest are then timed again in pairs with the first
of them, each right after it: the median of a candidate's ratios is its time, so that a machine that slows down for a
while slows down both sides of a ratio.

Each space becomes FOLDER/NAME.npz: `space` (JSON), `seconds` (float32, infinite where the schedule is refused),
`flops`, `machine`, `features` (float16, `loop_features` of each candidate).
"""

import argparse
import contextlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

import numpy as np

import mlc
from mlc import te
from mlc.support.errors import UserError
from mlc.targets.target import Target
from mlc.tuning.space import Knob, Part, Space, Values
from mlc.tuning.tuners.loop_features import NAMES, loop_features

_ROUNDS = 12
_BLOCK_SECONDS = 0.0012
_SLOW = 4.0  # times the fastest after the first rounds: such candidates are not timed again
_FIRST_ROUNDS = 2
_LEAST_CALLS = 3  # in a block, so that one interruption does not decide
_FINALISTS = 20  # candidates that are timed in pairs, and all that are about as fast
_ABOUT = 0.9  # of the fastest one's speed
_PAIRS = 25

Rows: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.float16]]"
Schedule = Any  # the methods of mlc.Schedule are made at run time


@dataclass(frozen=True)
class Case:
    """A kernel, its space, and the function that schedules a candidate."""

    func: Any
    space: Space
    flops: int
    schedule: Callable[[Schedule, Values], None]


# --- matrix products: C[i, j] = sum over k of A[i, k] * B[k, j] ---

_ORDERS = ("ijk", "jik", "kij", "jki")
"""Orders of the loops over blocks of rows, blocks of columns and the reduction."""
_MOST_VECTORS = 48
"""Vectors of a register tile, beyond which a schedule is refused: they would only spill."""


def dense(rows: int, columns: int, depth: int, unroll: tuple[int, ...] = (1, 4)) -> Case:
    """A matrix product: a register tile or only lanes, B packed or not, an unrolled reduction, the order of loops."""
    a, b = te.placeholder((rows, depth), name="A"), te.placeholder((depth, columns), name="B")
    k = te.reduce_axis(depth, "k")
    c = te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    tiles = tuple(n for n in (1, 2, 3, 4, 6, 8, 12, 16) if n <= rows)
    knobs = (
        Knob("tile_rows", tiles, max(n for n in tiles if n <= 6)),
        Knob("tile_columns", tuple(n for n in (8, 16, 32, 48, 64, 128) if n <= columns), 64),
        Knob("vector", ("tile", "lanes"), "tile"),
        Knob("unroll", unroll, 1),
        Knob("pack", ("none", "panel", "whole"), "none"),
        Knob("order", _ORDERS, "ijk"),
    )
    func, flops = te.func("dense", [a, b], [c]), 2 * rows * columns * depth
    return Case(func, Space((Part("dense", knobs),)), flops, _dense_schedule)


def _dense_schedule(s: Schedule, values: Values) -> None:
    _check_tile(int(values["tile_rows"]), int(values["tile_columns"]))
    i, j, k = s.loops(s["C"])
    i_out, i_in = s.split(i, [None, values["tile_rows"]])
    j_out, j_in = s.split(j, [None, values["tile_columns"]])
    k_out, k_in = s.split(k, [None, values["unroll"]])
    loops = {"i": i_out, "j": j_out, "k": k_out}
    s.reorder(*(loops[name] for name in str(values["order"])), k_in, i_in, j_in)
    _pack(s, s["C"], values, j_out)
    init, _ = s.decompose_reduction(s["C"], k_out)
    s.vectorize(*([i_in, j_in] if values["vector"] == "tile" else [j_in]))
    s.unroll(k_in)
    s.vectorize(*s.loops(init)[-2:] if values["vector"] == "tile" else s.loops(init)[-1:])


def _pack(s: Schedule, block: Any, values: Values, panel: Any) -> None:
    """Copy the second operand, whose last dimension the lanes are of: a panel of it below a loop, or all of it."""
    if values["pack"] == "none":
        return
    size, whole = values["tile_columns"], values["pack"] == "whole"
    copy = s.cache_read(block, 1, "shared" if whole else "local")
    if not whole:
        s.compute_at(copy, panel)
        s.vectorize(s.loops(copy)[-1])
        return
    s.transform_layout(copy, lambda k, j: [j // size, k, j % size])
    _, lanes = s.split(s.loops(copy)[-1], [None, size])
    s.vectorize(lanes)


def _check_tile(rows: int, columns: int) -> None:
    if rows * -(-columns // 16) > _MOST_VECTORS:
        raise UserError(f"expected a tile of at most {_MOST_VECTORS} vectors, but got {rows} x {columns} elements")


# --- convolutions, channels last: y[i, j, f] = sum over r, s, c of x[i', j', c] w[r, s, c, f] ---


def conv(channels: int, filters: int, size: int, window: int, stride: int = 1) -> Case:
    """A convolution (HWC, HWIO), its input padded already, to a picture of size x size: tiles of pixels and filters."""
    width = (size - 1) * stride + window
    x = te.placeholder((width, width, channels), name="x")
    w = te.placeholder((window, window, channels, filters), name="w")
    r, s, c = (te.reduce_axis(n, name) for n, name in ((window, "r"), (window, "s"), (channels, "c")))
    y = te.compute(
        (size, size, filters),
        lambda i, j, f: te.sum(x[i * stride + r, j * stride + s, c] * w[r, s, c, f], axis=(r, s, c)),
        name="y",
    )
    tiles = tuple(n for n in (1, 2, 3, 4, 5, 6, 7, 8, 10, 14) if n <= size)
    knobs = (
        Knob("tile_rows", tiles, max(n for n in tiles if n <= 7)),
        Knob("tile_columns", tuple(n for n in (8, 16, 24, 32, 48, 64, 96) if n <= filters), 32),
        Knob("vector", ("tile", "columns", "rows"), "tile"),
        Knob("order", _ORDERS, "ijk"),
        Knob("reduce_order", ("rsc", "crs"), "rsc") if window > 1 else Knob("unroll", (1, 4), 1),
    )
    func, flops = te.func("conv", [x, w], [y]), 2 * channels * filters * size * size * window * window
    return Case(func, Space((Part("conv", knobs),)), flops, _conv_schedule)


def _conv_schedule(s: Schedule, values: Values) -> None:
    if values["vector"] == "tile":
        _check_tile(int(values["tile_rows"]), int(values["tile_columns"]))
    i, p, f, *taps = s.loops(s["y"])
    p_out, p_in = s.split(p, [None, values["tile_rows"]])
    f_out, f_in = s.split(f, [None, values["tile_columns"]])
    if "unroll" in values:
        taps[2], unrolled = s.split(taps[2], [None, values["unroll"]])
        first, *rest = [taps[2], *taps[:2], unrolled]
        s.unroll(unrolled)
    else:
        first, *rest = (taps["rsc".index(name)] for name in str(values["reduce_order"]))
    loops = {"i": [i], "j": [f_out], "k": [first]}
    order = [loop for name in str(values["order"]) for loop in loops[name]]
    at = order.index(first)
    order = [*order, p_out, *rest] if at < 2 else [*order[:at], p_out, first, *rest]
    tile = [f_in, p_in] if values["vector"] == "rows" else [p_in, f_in]
    s.reorder(*order, *tile)
    init, _ = s.decompose_reduction(s["y"], first)
    vectors = 2 if values["vector"] == "tile" else 1
    s.vectorize(*tile[-vectors:])
    s.vectorize(*s.loops(init)[-vectors:])


CASES: dict[str, Callable[[], Case]] = {
    "dense_16x1024x512": lambda: dense(16, 1024, 512),
    "dense_96x512x512": lambda: dense(96, 512, 512, (1,)),
    "dense_49x384x256": lambda: dense(49, 384, 256, (1,)),
    "dense_196x256x64": lambda: dense(196, 256, 64, (1,)),
    "dense_32x768x256": lambda: dense(32, 768, 256, (1,)),
    "conv_192x128x7x3": lambda: conv(192, 128, 7, 3),
    "conv_96x128x10x3s2": lambda: conv(96, 128, 10, 3, 2),
    "conv_128x128x14x3": lambda: conv(128, 128, 14, 3),
    "conv_256x256x7x3": lambda: conv(256, 256, 7, 3),
    "conv_256x256x14x3": lambda: conv(256, 256, 14, 3),
    "conv_256x64x28x1": lambda: conv(256, 64, 28, 1),
    "conv_1024x256x14x1": lambda: conv(1024, 256, 14, 1),
    "conv_512x128x14x1": lambda: conv(512, 128, 14, 1),
    "conv_64x128x14x3": lambda: conv(64, 128, 14, 3),
    "conv_48x96x10x5": lambda: conv(48, 96, 10, 5),
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


def _built(case: Case, features: Rows) -> Iterator[tuple[int, Any]]:
    """Each candidate that is accepted, built, with its number; its output is checked; its features are filled in."""
    inputs, expected, target = None, None, Target.parse("native")
    for index in range(case.space.size):
        try:
            schedule = scheduled(case, index)
            features[index] = loop_features(schedule.lowered(), target)
            operator = mlc.build(schedule, threads=1)
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
    """The least seconds of the processor of a call in a block of calls."""
    operator(*inputs, out=out)
    end, least, calls = time.thread_time() + _BLOCK_SECONDS, float("inf"), 0
    while True:
        calls += 1
        start = time.thread_time()
        operator(*inputs, out=out)
        now = time.thread_time()
        least = min(least, now - start)
        if now > end and calls >= _LEAST_CALLS:
            return least


def measure(case: Case) -> tuple[np.ndarray, Rows]:
    """The seconds of each candidate, infinite if refused; the features."""
    seconds, features = np.full(case.space.size, np.inf), _no_features(case)
    operators = dict(_built(case, features))
    inputs, out = _arrays(case, next(iter(operators.values())))
    for turn in range(_ROUNDS):
        limit = _SLOW * seconds.min() if turn >= _FIRST_ROUNDS else np.inf
        for index, operator in operators.items():
            if seconds[index] <= limit:
                seconds[index] = min(seconds[index], _block(operator, inputs, out))
    _measure_in_pairs(seconds, lambda index: _block(operators[index], inputs, out))
    return seconds.astype(np.float32), features


def _measure_in_pairs(seconds: np.ndarray, block: Callable[[int], float]) -> None:
    """Time the finalists again, each right after the fastest one, and set their seconds by the medians of ratios."""
    near = int((seconds <= seconds.min() / _ABOUT).sum())
    first, *finalists = np.argsort(seconds, kind="stable")[: max(_FINALISTS, near)].tolist()
    ratios = {index: list[float]() for index in finalists}
    for _ in range(_PAIRS):
        for index, found in ratios.items():
            reference = block(first)
            found.append(block(index) / reference)
            seconds[first] = min(seconds[first], reference)
    for index, found in ratios.items():
        seconds[index] = seconds[first] * median(found)


def _no_features(case: Case) -> Rows:
    return np.full((case.space.size, len(NAMES)), np.inf, np.float16)


def _save(path: Path, case: Case, seconds: np.ndarray, features: Rows) -> None:
    parts = [
        {"strategy": part.strategy, "knobs": [[k.name, k.candidates, k.default] for k in part.knobs]}
        for part in case.space.parts
    ]
    machine = f"{Target.parse('native').cpu}, 1 thread"
    np.savez_compressed(
        path, space=json.dumps(parts), seconds=seconds, flops=case.flops, machine=machine, features=features
    )


def _add_features(path: Path, case: Case) -> None:
    """Put the features of all candidates beside their times; refused ones have an infinite estimate."""
    target = Target.parse("native")
    rows = _no_features(case)
    for index in range(case.space.size):
        with contextlib.suppress(UserError):
            rows[index] = loop_features(scheduled(case, index).lowered(), target)
    old = np.load(path)
    np.savez_compressed(path, **{name: old[name] for name in old.files if name != "features"}, features=rows)


def _measure_all(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        start, case = time.time(), CASES[name]()
        print(f"{name}: {case.space.size} candidates", flush=True)
        seconds, features = measure(case)
        _save(folder / f"{name}.npz", case, seconds, features)
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
    parser.add_argument("command", choices=["measure", "features", "list"])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    if args.command == "list":
        print("\n".join(f"{name}: {case().space.size} candidates" for name, case in CASES.items()))
    elif args.folder is None:
        parser.error("expected a folder to write into")
    elif args.command == "features":
        for path in sorted(args.folder.glob("*.npz")):
            if path.stem in (args.names or CASES):
                _add_features(path, CASES[path.stem]())
    else:
        _measure_all(args.folder, args.names or list(CASES))


if __name__ == "__main__":
    main()
