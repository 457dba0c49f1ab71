"""
Compile random graphs until the time is up: `make fuzz` (SECONDS=600, SEED=0).

Each seed's graph is compiled at an opt level with 1 or 2 threads, for a target and in a precision, sometimes with
guards round all operands (unit/guarded.py), and its graph passes are run in a random order. What fails is made small
and saved below $MLC_FUZZ_DIR (default: the temporary directory); the exit code is then 1. `--style` says what graphs
are like: `large`, `empty` (sizes of 0), `types` (f16, bf16, f64, integers), `control` (if, loop, scan).
`python tests/fuzz.py --replay DIRECTORY` runs a saved case again.
"""

import argparse
import platform
import sys
import time
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent / "helpers"))

import fuzz_oracle as oracle
from random_graphs import STYLES, graph_of

TARGETS = ["native"] * 5 + ["x86-64-v3", "x86-64-v2"]
PRECISIONS = ["f32"] * 8 + ["bf16", "f16"]


def ways(seed: int, guarded: bool = False) -> list:
    """How the graph of a seed is computed."""
    random = Random(seed)
    order = random.sample(oracle.ANY_ORDER, len(oracle.ANY_ORDER))
    disabled = tuple(random.sample(oracle.OPTIONAL, random.randrange(8))) if random.random() < 0.3 else ()
    level, threads = random.randrange(5), random.choice([1, 2])
    target = random.choice(TARGETS) if platform.machine() == "x86_64" else "native"
    precision, guarded = random.choice(PRECISIONS), guarded or random.random() < 0.2
    compiled = oracle.Compiled(level, threads, disabled, target, precision, guarded)
    if guarded:
        return [compiled]
    return [
        compiled,
        oracle.Passed((*order, "graph-fuse-ops", "graph-outline-kernels")),
        oracle.Passed((f"graph-O{random.randrange(5)}",)),
    ]


def main() -> int:
    """The command; exit code 1 if a graph is computed wrongly."""
    parser = argparse.ArgumentParser(description="compile random graphs and compare with the graph interpreter")
    parser.add_argument("--seconds", type=float, default=600, help="how long (default: 600)")
    parser.add_argument("--seed", type=int, default=0, help="the first graph's seed")
    parser.add_argument("--ops", type=int, default=12, help="how many ops a graph has at most")
    parser.add_argument("--style", choices=sorted(STYLES), default="default", help="what graphs are like")
    parser.add_argument("--guarded", action="store_true", help="only compile, and guard all operands")
    parser.add_argument("--replay", help="the directory of a saved case")
    options = parser.parse_args()
    if options.replay:
        case, way = oracle.load(options.replay)
        problem = oracle.failure(case, way, oracle.growth_of(way))
        print(problem or "agrees with the graph interpreter")
        return int(bool(problem))
    oracle.warm()
    end, seed, failed = time.monotonic() + options.seconds, options.seed, 0
    while time.monotonic() < end:
        case = graph_of(seed, 2, options.ops, STYLES[options.style])
        for way in ways(seed, options.guarded):
            try:
                oracle.check(case, way)
            except AssertionError as error:
                failed += 1
                print(f"seed {seed}: {error}", flush=True)
        seed += 1
    print(f"{seed - options.seed} graphs, {failed} failures")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
