"""
Measure models and kernels beside onnxruntime and numpy; `make bench` runs this.

    python benchmarks/run.py [--quick] [--only models] [--only gemm] [--model resnet50] [--json FILE]

Prints tables, and writes every figure with its spread as JSON. How figures are taken: benchmarks/measure.py.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import models
import numpy as np
import onnxruntime
from kernels import CONVS, GEMMS, SWEEP, Conv
from measure import best_blas, blas_core, blas_threads, gate, in_turns, peak, ratio
from rich.console import Console
from rich.table import Table

import mlc
from mlc.driver.host import measure_bandwidth, measure_dispatch_ns, measure_handover_ns
from mlc.targets.target import native_target

ROOT = Path(__file__).resolve().parents[1]
CONSOLE = Console(width=None if sys.stdout.isatty() else 140)


def table(title: str, *columns: str) -> Table:
    """A table: words to the left, numbers to the right."""
    result = Table(title=title, title_justify="left", title_style="bold", min_width=len(title))
    for index, column in enumerate(columns):
        result.add_column(column, justify="right" if index else "left", no_wrap=True)
    return result


def spread(figures: dict[str, Any]) -> str:
    """A median with its quartiles."""
    return f"{figures['median']:.3f} ({figures['q1']:.3f}..{figures['q3']:.3f})"


def threads_of(args: argparse.Namespace) -> list[int]:
    """1, and 2 where there are two CPUs."""
    return [n for n in args.threads if n <= len(os.sched_getaffinity(0))]


def bench_machine(args: argparse.Namespace) -> dict[str, Any]:
    """Measure the peaks of the machine."""
    result: dict[str, Any] = {"cpu": native_target().cpu, "python": platform.python_version()}
    result |= {"numpy": np.__version__, "openblas": blas_core(), "onnxruntime": onnxruntime.__version__}
    rows = table("the machine", "threads", "fp32 GFLOP/s", "memory GB/s", "hand-over", "empty parallel loop")
    for threads in threads_of(args):
        facts = {"gflops": peak(threads), "gbytes": measure_bandwidth(threads)}
        cells = [str(threads), f"{facts['gflops']:.0f}", f"{facts['gbytes']:.1f}", "", ""]
        if threads > 1:
            facts |= {"handover_ns": measure_handover_ns(), "dispatch_ns": measure_dispatch_ns(threads)}
            cells[3:] = [f"{facts['handover_ns']:.0f} ns", f"{facts['dispatch_ns']:.0f} ns"]
        result[f"threads={threads}"] = facts
        rows.add_row(*cells)
    CONSOLE.print(rows)
    CONSOLE.print(f"{result['cpu']}; numpy's OpenBLAS runs its kernels for {result['openblas']}", highlight=False)
    return result


def bench_models(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Latency of whole models."""
    rows = table("models, ms: median (quartiles)", "model", "threads", "mlc", "onnxruntime", "ratio", "error", "gate")
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="mlc.") as directory:
        for name in args.model or models.available():
            case = models.case(name, Path(directory))
            for threads in threads_of(args):
                results.append(record := _model(case, threads, args.seconds))
                figures, error = record["ms"], f"{record['error']:.0e}"
                cells = (spread(figures["mlc"]), spread(figures["onnxruntime"]), f"{record['ratio']:.2f}", error)
                rows.add_row(name, str(threads), *cells, gate(record))
    CONSOLE.print(rows)
    return results


def _model(case: models.Case, threads: int, seconds: float) -> dict[str, Any]:
    exe = mlc.compile(case.path, shapes=case.shapes or None, threads=threads)
    session = models.session(case.path, threads)
    runs = {"mlc": lambda: exe(case.inputs), "onnxruntime": lambda: session.run(None, case.inputs)}
    record = in_turns(runs, seconds, threads)
    error = models.error(runs["mlc"](), runs["onnxruntime"]())
    return {"model": case.name, **record, "ratio": ratio(record, "mlc", "onnxruntime"), "error": error}


def bench_gemm(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Matrix products, with the limit that binds each: the FMA peak, or the bandwidth of the memory."""
    rows = table("matrix product, GFLOP/s", "m x n x k", "threads", "mlc", "numpy", "mlc / numpy", "of limit", "gate")
    results: list[dict[str, Any]] = []
    widths = {threads: measure_bandwidth(threads) for threads in threads_of(args)}
    for product in GEMMS[:: 8 if args.quick else 1]:
        a, b = product.arrays()
        for threads in threads_of(args):
            blas_threads(threads)
            op, inputs = product.operator(threads)
            c = np.empty(op.outputs[0].shape, np.float32)
            d = np.empty_like(c)
            runs = {"mlc": partial(op, *inputs, out=c), "numpy": partial(np.matmul, a, b, out=d)}
            record = in_turns(runs, args.seconds, threads)
            rates = {name: 1e3 * product.gflop / f["median"] for name, f in record["ms"].items()}
            seconds, limit = record["ms"]["mlc"]["median"] / 1e3, peak(threads)
            compute, memory = product.gflop / limit / seconds, product.gbytes / widths[threads] / seconds
            bound = f"{100 * compute:.0f} % peak" if compute > memory else f"{100 * memory:.0f} % memory"
            record |= {"product": str(product), "gflops": rates, "peak": limit, "gbytes": product.gbytes / seconds}
            record |= {"of_peak": compute, "of_memory": memory, "error": float(np.max(np.abs(c - d)))}
            results.append(record)
            ours, theirs = rates["mlc"], rates["numpy"]
            cells = (f"{ours:.0f}", f"{theirs:.0f}", f"{ours / theirs:.2f}", bound)
            rows.add_row(str(product), str(threads), *cells, gate(record))
    CONSOLE.print(rows)
    return results


def bench_convs(args: argparse.Namespace, title: str, convs: tuple[Conv, ...], winograd: bool) -> list[dict[str, Any]]:
    """Convolution kernels with bias and relu, in the compiler's layout."""
    rows = table(
        f"{title}, GFLOP/s of the direct sum", "convolution", "threads", "GFLOP/s", "of peak", "GB/s", "us", "gate"
    )
    results: list[dict[str, Any]] = []
    for conv in convs[:: 4 if args.quick and len(convs) > 4 else 1]:
        for threads in threads_of(args):
            op, inputs = conv.operator(threads, winograd)
            out = [np.empty(spec.shape, np.float32) for spec in op.outputs]
            record = in_turns({"mlc": partial(op, *inputs, out=out)}, args.seconds / 2, threads)
            middle, limit = record["ms"]["mlc"]["median"], peak(threads)
            rate = 1e3 * conv.gflop / middle
            width = 1e-6 * sum(array.nbytes for array in (*inputs, *out)) / middle
            facts = {"gflops": rate, "peak": limit, "of_peak": rate / limit, "gbytes": width}
            results.append(record | {"conv": str(conv)} | facts)
            cells = (f"{rate:.0f}", f"{100 * rate / limit:.0f} %", f"{width:.0f}", f"{1e3 * middle:.1f}")
            rows.add_row(str(conv), str(threads), *cells, gate(record))
    CONSOLE.print(rows)
    return results


SECTIONS = {
    "models": bench_models,
    "gemm": bench_gemm,
    "conv": lambda args: bench_convs(args, "3x3 convolutions, direct", CONVS, winograd=False),
    "winograd": lambda args: bench_convs(args, "3x3 convolutions, algorithm chosen", CONVS, winograd=True),
    "sweep": lambda args: bench_convs(args, "sweep, direct", SWEEP, winograd=False),
}


def main() -> None:
    """Run the sections and write the record."""
    parser = argparse.ArgumentParser(description="measure mlc beside onnxruntime and numpy")
    parser.add_argument("--quick", action="store_true", help="less time and fewer rows")
    parser.add_argument("--only", action="append", choices=tuple(SECTIONS), help="a section; may be repeated")
    parser.add_argument("--model", action="append", choices=models.NAMES, help="a model; may be repeated")
    parser.add_argument("--threads", type=int, action="append", help="default: 1 and 2")
    parser.add_argument("--seconds", type=float, help="how long to measure each figure (default: 3, or 0.5 if quick)")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "bench.json", help="default: build/bench.json")
    args = parser.parse_args()
    best_blas()
    args.threads = args.threads or [1, 2]
    args.seconds = args.seconds or (0.5 if args.quick else 3.0)
    record: dict[str, Any] = {"machine": bench_machine(args)}
    for name in args.only or SECTIONS:
        record[name] = SECTIONS[name](args)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(record, indent=1) + "\n")
    CONSOLE.print(f"wrote {args.json}", highlight=False)


if __name__ == "__main__":
    main()
