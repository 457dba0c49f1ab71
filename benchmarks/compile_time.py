"""
Seconds from starting a process to the first output, cold and warm, and the memory that compiling takes.

    python benchmarks/compile_time.py [--model resnet50] [--repeat 3] [--json FILE]

Every figure is a new process: cold with an empty cache, warm with the cache that cold left, onnxruntime beside them.
Peak memory is that of all processes of a cold compilation together (proportional set sizes, sampled in a run of its
own). "compiler" is what mlc itself reports for a cold compilation: load, passes, kernels, linking.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import models
import numpy as np
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
_MLC = """
import sys, json, mlc, numpy
path, inputs, shapes, threads = sys.argv[1:]
shapes = {name: tuple(shape) for name, shape in json.loads(shapes).items()} or None
exe = mlc.compile(path, shapes=shapes, threads=int(threads))
exe(dict(numpy.load(inputs)))
print(exe.report["seconds"])
"""
_ONNXRUNTIME = """
import sys, numpy, onnxruntime
path, inputs, shapes, threads = sys.argv[1:]
options = onnxruntime.SessionOptions()
options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = int(threads), 1, 3
session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
session.run(None, dict(numpy.load(inputs)))
print(0)
"""


class Child:
    """A model's first output in a new process."""

    def __init__(self, case: models.Case, directory: Path, threads: int) -> None:
        self.inputs = directory / f"{case.path.stem}.npz"
        np.savez(self.inputs, **case.inputs)
        self.arguments = [str(case.path), str(self.inputs), json.dumps(case.shapes), str(threads)]

    def start(self, code: str, cache: str) -> subprocess.Popen[str]:
        environment = os.environ | {"MLC_CACHE_DIR": cache}
        command = [sys.executable, "-c", code, *self.arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)

    def seconds(self, code: str, cache: str) -> tuple[float, float]:
        """From exec to the end, and what the process printed."""
        start = time.perf_counter()
        process = self.start(code, cache)
        text = process.communicate()[0]
        if process.returncode:
            raise SystemExit(f"a process ended with {process.returncode}")
        return time.perf_counter() - start, float(text)

    def megabytes(self, code: str, cache: str) -> float:
        """The peak of all its processes together."""
        process = self.start(code, cache)
        peak = [0]
        watcher = threading.Thread(target=_watch, args=(process, peak))
        watcher.start()
        process.communicate()
        watcher.join()
        return peak[0] / 1024


def _watch(process: "subprocess.Popen[str]", peak: list[int]) -> None:
    while process.poll() is None:
        peak[0] = max(peak[0], sum(map(_pss, _family(process.pid))))
        time.sleep(0.05)


def _family(pid: int) -> list[int]:
    """A process and its descendants."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    return [pid, *(one for child in children for one in _family(int(child)))]


def _pss(pid: int) -> int:
    """KiB of memory, what is shared counted in parts."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def measure(case: models.Case, directory: Path, threads: int, repeat: int) -> dict[str, Any]:
    """All figures of one model."""
    child = Child(case, directory, threads)
    figures: dict[str, list[float]] = {"cold": [], "warm": [], "compiler": [], "onnxruntime": []}
    for _ in range(repeat):
        with tempfile.TemporaryDirectory(prefix="mlc.") as cache:
            cold, compiler = child.seconds(_MLC, cache)
            figures["cold"].append(cold)
            figures["compiler"].append(compiler)
            figures["warm"] += [child.seconds(_MLC, cache)[0] for _ in range(3)]
        figures["onnxruntime"].append(child.seconds(_ONNXRUNTIME, "")[0])
    with tempfile.TemporaryDirectory(prefix="mlc.") as cache:
        megabytes = {"mlc": child.megabytes(_MLC, cache), "onnxruntime": child.megabytes(_ONNXRUNTIME, "")}
    return {"model": case.name, "threads": threads, "seconds": figures, "peak_mb": megabytes}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="measure how long compiling takes")
    parser.add_argument("--model", action="append", choices=models.NAMES, help="a model; may be repeated")
    parser.add_argument("--repeat", type=int, default=3, help="cold compilations of each model (default: 3)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="default: all CPUs")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "compile_time.json")
    args = parser.parse_args()
    table = Table(title="from exec to the first output, seconds: median", title_justify="left", title_style="bold")
    headings = ("model", "cold", "of which compiler", "warm", "onnxruntime", "peak MB", "onnxruntime MB")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "model" else "right", no_wrap=True)
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="mlc.") as directory:
        for name in args.model or models.available():
            case = models.case(name, Path(directory))
            results.append(record := measure(case, Path(directory), args.threads, args.repeat))
            middle = {key: f"{statistics.median(values):.2f}" for key, values in record["seconds"].items()}
            memory = record["peak_mb"]
            cells = (middle["cold"], middle["compiler"], middle["warm"], middle["onnxruntime"])
            table.add_row(name, *cells, f"{memory['mlc']:.0f}", f"{memory['onnxruntime']:.0f}")
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(results, indent=1) + "\n")
    print(f"wrote {args.json}")


if __name__ == "__main__":
    main()
