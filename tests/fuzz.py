"""
Compile random graphs until the time is up: `make fuzz` (SECONDS=600, SEED=0).

Each seed's graph is compiled at an opt level with 1 or 2 threads, and its graph passes are run in a random order. What
fails is made small and saved below $MLC_FUZZ_DIR (default: the temporary directory); the exit code is then 1.
`python tests/fuzz.py --replay DIRECTORY` runs a saved case again.
"""

import argparse
import sys
import time
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent / "unit"))

import fuzz_oracle as oracle
from random_graphs import graph_of


def ways(seed: int) -> list:
    """How the graph of a seed is computed."""
    random = Random(seed)
    order = random.sample(oracle.OPTIONAL, len(oracle.OPTIONAL))
    disabled = tuple(random.sample(oracle.OPTIONAL, random.randrange(8))) if random.random() < 0.3 else ()
    return [
        oracle.Compiled(random.randrange(5), random.choice([1, 2]), disabled),
        oracle.Passed((*order, "graph-fuse-ops", "graph-outline-kernels")),
        oracle.Passed((f"graph-O{random.randrange(5)}",)),
    ]


def main() -> int:
    """The command; exit code 1 if a graph is computed wrongly."""
    parser = argparse.ArgumentParser(description="compile random graphs and compare with the graph interpreter")
    parser.add_argument("--seconds", type=float, default=600, help="how long (default: 600)")
    parser.add_argument("--seed", type=int, default=0, help="the first graph's seed")
    parser.add_argument("--ops", type=int, default=12, help="how many ops a graph has at most")
    parser.add_argument("--replay", help="the directory of a saved case")
    options = parser.parse_args()
    if options.replay:
        case, way = oracle.load(options.replay)
        problem = oracle.failure(case, way, oracle.growth_of(way))
        print(problem or "agrees with the graph interpreter")
        return int(bool(problem))
    end, seed, failed = time.monotonic() + options.seconds, options.seed, 0
    while time.monotonic() < end:
        case = graph_of(seed, 2, options.ops)
        for way in ways(seed):
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
