"""
Ratios of times that were taken in turns: what a machine that other programs use can still tell.

Contenders run in rounds of a few calls each, so that load from outside meets all of them; a run is the medians of all
calls of its rounds. From three runs follows the mean ratio and its 95 % interval (Student's t on the logarithms).
"""

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from measure import let_threads_rest

Run = Callable[[], Any]
Medians = dict[str, float]

RUNS = 3
_STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571}
"""By the number of runs, the 97.5 % quantile of Student's t; its degrees of freedom are one less."""
_ROUNDS = 6
_MOST_CALLS = 1000


@dataclass(frozen=True)
class Ratio:
    """Our time over a peer's: below 1 we are faster."""

    peer: str
    mean: float
    low: float
    high: float

    @property
    def above(self) -> bool:
        """Whether we are slower beyond chance: the lower end of the interval is above 1."""
        return self.low > 1.0

    def facts(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)


def runs_of(runs: Mapping[str, Run], seconds: float, threads: int) -> list[Medians]:
    """RUNS times the median milliseconds of a call by contender, about `seconds` a contender and run."""
    calls = {name: _calls(run, seconds / _ROUNDS) for name, run in runs.items()}
    return [_run(runs, calls, threads) for _ in range(RUNS)]


def _calls(run: Run, seconds: float) -> int:
    """How many calls fill the time."""
    least = math.inf
    for _ in range(3):
        start = time.perf_counter()
        run()
        least = min(least, time.perf_counter() - start)
    return max(2, min(_MOST_CALLS, int(seconds / max(least, 1e-7))))


def _run(runs: Mapping[str, Run], calls: Mapping[str, int], threads: int) -> Medians:
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(_ROUNDS):
        for name, run in runs.items():
            if threads > 1:
                let_threads_rest()
            run()
            for _ in range(calls[name]):
                start = time.perf_counter()
                run()
                times[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(one) for name, one in times.items()}


def ratio(runs: list[Medians], ours: str, peer: str) -> Ratio:
    """The mean ratio of the runs, and its 95 % interval."""
    logs = [math.log(one[ours] / one[peer]) for one in runs]
    mean = statistics.fmean(logs)
    count = len(logs)
    half = _STUDENT[count] * statistics.stdev(logs) / math.sqrt(count) if count > 1 else math.inf
    return Ratio(peer, math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def best_ratio(runs: list[Medians], ours: str) -> Ratio | None:
    """The ratio to the fastest peer, by the medians of the runs; None without a peer."""
    peers = [name for name in runs[0] if name != ours]
    if not peers:
        return None
    return ratio(runs, ours, min(peers, key=lambda name: statistics.median(one[name] for one in runs)))


def geometric_mean(values: list[float]) -> float:
    """The geometric mean; not a number for none."""
    return math.exp(statistics.fmean(map(math.log, values))) if values else math.nan
