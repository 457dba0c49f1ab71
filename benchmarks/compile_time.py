"""
Seconds from starting a process to the first output, cold and warm, and the memory that compiling takes.

    python benchmarks/compile_time.py [--model resnet50] [--repeat 3] [--json FILE]      # or make bench-compile
    python benchmarks/compile_time.py --layers 25,50,100,200 --hidden 128                # encoders of many layers

Every figure is a new process: cold with an empty cache, warm with the cache that cold left. How long the process takes
to end does not count, as it does not for peers. Beside them stand the peers that are installed: onnxruntime and
OpenVINO, which compile nothing, and the compilers IREE and TVM, once each. Peak memory is that of all processes of a
cold compilation together (proportional set sizes, sampled in a run of its own).
"compiler" is what mlc itself reports for a cold compilation: load, passes, kernels, linking.
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import models
import numpy as np
import processes
from contenders import CONTENDERS
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
_MLC = """
import sys, json, mlc, numpy
path, inputs, shapes, threads = sys.argv[1:]
shapes = {name: tuple(shape) for name, shape in json.loads(shapes).items()} or None
exe = mlc.compile(path, shapes=shapes, threads=int(threads))
exe(dict(numpy.load(inputs)))
print(exe.report["seconds"], flush=True)
"""
_PEERS = ("onnxruntime", "openvino", "iree", "tvm")


class Child:
    """A model's first output in a new process."""

    def __init__(self, case: models.Case, directory: Path, threads: int) -> None:
        self.inputs = directory / f"{case.path.stem}.npz"
        np.savez(self.inputs, **case.inputs)
        self.arguments = [str(case.path), str(self.inputs), json.dumps(case.shapes), str(threads)]

    def start(self, code: str, cache: str) -> subprocess.Popen[str]:
        environment = os.environ | {"MLC_CACHE_DIR": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its byte code
        command = [sys.executable, "-c", code, *self.arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)

    def seconds(self, code: str, cache: str) -> tuple[float, float]:
        """Seconds from exec to the first output, and the number that the process prints then."""
        start = time.perf_counter()
        process = self.start(code, cache)
        assert process.stdout is not None
        text = process.stdout.readline()
        seconds = time.perf_counter() - start
        process.communicate()
        if process.returncode:
            raise SystemExit(f"a process ended with {process.returncode}")
        return seconds, float(text)

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
    """Proportional set size in KiB: shared pages are divided among the processes that map them."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def measure(case: models.Case, directory: Path, args: argparse.Namespace) -> dict[str, Any]:
    """All figures of one model."""
    child = Child(case, directory, args.threads)
    figures: dict[str, list[float]] = {"cold": [], "warm": [], "compiler": []}
    for _ in range(args.repeat):
        with tempfile.TemporaryDirectory(prefix="mlc.") as cache:
            cold, compiler = child.seconds(_MLC, cache)
            figures["cold"].append(cold)
            figures["compiler"].append(compiler)
            figures["warm"] += [child.seconds(_MLC, cache)[0] for _ in range(3)]
    with tempfile.TemporaryDirectory(prefix="mlc.") as cache:
        megabytes = child.megabytes(_MLC, cache)
    return {"model": case.name, "threads": args.threads, "seconds": figures | peers(case, args), "peak_mb": megabytes}


def peers(case: models.Case, args: argparse.Namespace) -> dict[str, list[float]]:
    """The first output of each peer that is installed and can run the model."""
    result: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="mlc.") as directory:
        job = models.job(case, args.threads, Path(directory))
        for name in args.peer or _PEERS:
            if not CONTENDERS[name].missing and "ready" in (record := processes.alone(name, job)):
                result[name] = [record["ready"]]
    return result


def cases(args: argparse.Namespace, directory: Path) -> Iterator[models.Case]:
    """What is asked for, each made when its turn comes."""
    if args.layers is None:
        yield from (models.case(name, directory) for name in args.model or models.available())
        return
    try:
        counts = [int(part) for part in args.layers.split(",")]
    except ValueError:
        raise SystemExit(f"expected --layers as in '24,48', but got '{args.layers}'") from None
    for layers in counts:
        case = models.deep(layers, args.hidden, directory)
        yield case
        case.path.unlink()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="measure how long compiling takes")
    parser.add_argument("--model", action="append", choices=models.NAMES, help="a model; may be repeated")
    parser.add_argument("--layers", metavar="N,N", help="text encoders of so many layers instead of models")
    parser.add_argument("--hidden", type=int, default=1024, help="the width of their layers (default: 1024)")
    parser.add_argument("--peer", action="append", choices=_PEERS, help="a peer; may be repeated (default: all)")
    parser.add_argument("--repeat", type=int, default=3, help="cold compilations of each model (default: 3)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="default: all CPUs")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "compile_time.json")
    args = parser.parse_args()
    table = Table(title="from exec to the first output, seconds: median", title_justify="left", title_style="bold")
    for heading in ("model", "cold", "of which compiler", "warm", *_PEERS, "cold / iree", "cold / tvm", "peak MB"):
        table.add_column(heading, justify="left" if heading == "model" else "right", no_wrap=True)
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="mlc.") as directory:
        for case in cases(args, Path(directory)):
            results.append(record := measure(case, Path(directory), args))
            table.add_row(case.name, *_cells(record))
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(results, indent=1) + "\n")
    print(f"wrote {args.json}")


def _cells(record: dict[str, Any]) -> list[str]:
    middle = {key: statistics.median(values) for key, values in record["seconds"].items()}
    figures = [f"{middle[key]:.2f}" if key in middle else "-" for key in ("cold", "compiler", "warm", *_PEERS)]
    ratios = [f"{middle['cold'] / middle[name]:.2f}" if name in middle else "-" for name in ("iree", "tvm")]
    return [*figures, *ratios, f"{record['peak_mb']:.0f}"]


if __name__ == "__main__":
    main()
