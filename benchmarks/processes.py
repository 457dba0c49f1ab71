"""
Contenders in processes of their own: seconds until ready, memory, values; and all of one model in turns.

    python benchmarks/processes.py alone CONTENDER JOB          # what `alone` below starts
    python benchmarks/processes.py together JOB SECONDS NAME..  # what `together` below starts

A contender that fails, crashes or takes too long in its own process is a line in the record, and does not take part in
the turns. A process ends its output with one line of JSON.
"""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from contenders import CONTENDERS, Job, Run

_TOO_LONG = 400.0  # seconds
_CALLS, _SECONDS = 3, 1.0  # the least that a figure taken alone is made of
_READY = "ready"


def alone(name: str, job: Job) -> dict[str, Any]:
    """
    A contender in new processes: {"ready": seconds, "again": seconds, "ms", "mb", "error"} or {"fails": why}.

    The first process may leave what it compiled; the second finds it, and its memory is what running takes.
    """
    first = _start("alone", name, job.text())
    if "fails" in first:
        return first
    second = _start("alone", name, job.text())
    return second if "fails" in second else {**second, "again": second["ready"], "ready": first["ready"]}


def together(names: list[str], job: Job, seconds: float) -> dict[str, Any]:
    """Contenders in turns in one new process; the record of `measure.in_turns`, or {"fails": ..}."""
    return _start("together", job.text(), str(seconds), *names)


def _start(*arguments: str) -> dict[str, Any]:
    """A process of this file, timed from its start to the line that says it is ready."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
    command = [sys.executable, __file__, *arguments]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    watch = threading.Timer(_TOO_LONG, process.kill)
    watch.start()
    lines, ready = [], 0.0
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        if line.strip() == _READY:
            ready = time.perf_counter() - start
    process.wait()
    watch.cancel()
    return _record(lines, ready, process.returncode)


def _record(lines: list[str], ready: float, code: int) -> dict[str, Any]:
    last = lines[-1] if lines else ""
    if not last.startswith("{"):
        return {"fails": f"expected figures, but the process ended with {code}"}
    record = json.loads(last)
    return {**record, "ready": ready} if ready else record


def _alone(name: str, job: Job) -> dict[str, Any]:
    run = CONTENDERS[name].load(job)
    outputs = run()
    print(_READY, flush=True)
    error = _error(outputs, job.reference())
    del outputs
    _forget_peak()
    times, memory = _times(run), _peak_mb()
    from measure import figures  # not before: it takes memory

    return {"ms": figures(times), "error": error, "mb": memory}


def _times(run: Run) -> list[float]:
    times: list[float] = []
    while len(times) < _CALLS or sum(times) < 1e3 * _SECONDS:
        start = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - start))
    return times


def _error(ours: list[Any], theirs: list[Any]) -> float:
    """The greatest difference of any output over its greatest magnitude; infinite if something is not finite."""
    if [np.shape(a) for a in ours] != [np.shape(b) for b in theirs]:
        return float("inf")
    errors = [float(np.max(np.abs(a - b)) / max(1e-30, np.max(np.abs(b)))) for a, b in zip(ours, theirs, strict=True)]
    return max((one if np.isfinite(one) else float("inf")) for one in errors)


def _forget_peak() -> None:
    """Count the greatest resident memory from here."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return  # not Linux: the peak is that of the whole process


def _peak_mb() -> float:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return float("nan")
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def _together(job: Job, seconds: float, names: list[str]) -> dict[str, Any]:
    from measure import in_turns

    runs = {name: CONTENDERS[name].load(job) for name in names}
    return in_turns(runs, seconds, job.threads)


def main() -> None:
    """Measure as the arguments say, in this process."""
    kind, *rest = sys.argv[1:]
    try:
        if kind == "alone":
            record = _alone(rest[0], Job.read(rest[1]))
        else:
            record = _together(Job.read(rest[0]), float(rest[1]), rest[2:])
    except Exception as error:
        record = {
            "fails": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
        }
    print()
    print(json.dumps(record), flush=True)
    os._exit(0)  # some peers crash while Python ends


if __name__ == "__main__":
    main()
