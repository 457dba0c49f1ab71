"""
Measure mlc beside onnxruntime, OpenVINO, PyTorch, IREE and TVM; `make bench-peers` runs this.

    python benchmarks/peers.py [--quick] [--only models] [--model resnet50] [--peer openvino] [--threads 1]

Latency, seconds until ready, memory and values of whole models, and matrix products. Prints tables, writes every figure
with its spread as JSON, and a plot as SVG and PNG beside it. How figures are taken: benchmarks/measure.py and
benchmarks/processes.py. A peer that is not installed, or fails on a model, is a line under the table.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import models
import processes
import products
from contenders import CONTENDERS, PEERS, Job
from measure import best_blas, gate
from plot import plot
from run import CONSOLE, bench_machine, table, threads_of

ROOT = Path(__file__).resolve().parents[1]
_SLOW = 8.0
_PACKAGES = {
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
    "torch": "torch",
    "iree": "iree-base-compiler",
    "tvm": "apache-tvm",
    "numpy": "numpy",
}


def _installed(args: argparse.Namespace) -> list[str]:
    """mlc and the peers that are asked for and there; the others are named."""
    names = ["mlc", *(args.peer or PEERS)]
    for name in names:
        if missing := CONTENDERS[name].missing:
            CONSOLE.print(f"{name} is left out: expected {', '.join(missing)} to be installed")
    return [name for name in names if not CONTENDERS[name].missing]


def _export() -> None:
    """Write the models that come from PyTorch, if they are not there yet."""
    if len(models.available()) < len(models.NAMES):
        done = subprocess.run([sys.executable, ROOT / "benchmarks" / "export.py"], capture_output=True, text=True)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["?"])[-1]
            CONSOLE.print(f"models that come from PyTorch are left out: {reason}", markup=False)


def _measure(job: Job, names: list[str], seconds: float) -> dict[str, Any]:
    """One model at one number of threads: each contender alone, then all that are not far behind in turns."""
    lone = {name: processes.alone(name, job) for name in names}
    fails = {name: one["fails"] for name, one in lone.items() if "fails" in one}
    good = {name: one for name, one in lone.items() if "fails" not in one}
    least = min((one["ms"]["min"] for one in good.values()), default=0.0)
    near = [name for name, one in good.items() if one["ms"]["min"] <= _SLOW * least]
    record: dict[str, Any] = processes.together(near, job, seconds)
    if "fails" in record:
        fails["in turns"] = record["fails"]
        record, near = {"busy": False, "ms": {}}, []
    record["ms"] |= {name: one["ms"] for name, one in good.items() if name not in near}
    facts = {key: {name: one[key] for name, one in good.items()} for key in ("ready", "again", "mb", "error")}
    return {
        "model": job.name,
        "threads": job.threads,
        **record,
        **facts,
        "alone": sorted({*good} - {*near}),
        "fails": fails,
    }


def _ratio(record: dict[str, Any]) -> float | None:
    """mlc's median over the best peer's."""
    middle = {name: one["median"] for name, one in record["ms"].items()}
    peers = [value for name, value in middle.items() if name != "mlc"]
    return middle["mlc"] / min(peers) if "mlc" in middle and peers else None


def _cells(figures: dict[str, float], names: list[str], digits: str, marked: list[str] | None = None) -> list[str]:
    """A number or "-" for each contender; those marked get a star."""
    return [
        f"{figures[name]:{digits}}" + ("*" if name in (marked or ()) else "") if name in figures else "-"
        for name in names
    ]


def bench_models(args: argparse.Namespace, names: list[str]) -> list[dict[str, Any]]:
    """Whole models."""
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="mlc.") as directory:
        for name in args.model or models.available():
            case = models.case(name, Path(directory))
            for threads in threads_of(args):
                job = models.job(case, threads, Path(directory) / case.path.stem)
                results.append(record := _measure(job, names, args.seconds))
                _progress(record)
    _print_latency(results, names)
    _print_facts(results, names)
    for record in results:
        for name, reason in record["fails"].items():
            CONSOLE.print(f"{record['model']}, {record['threads']} threads: {name}: {reason[:200]}", markup=False)
    return results


def _progress(record: dict[str, Any]) -> None:
    parts = [f"{name} {one['median']:.3f}" for name, one in record["ms"].items()]
    CONSOLE.print(f"{record['model']}, {record['threads']}: {', '.join(parts)} ms", highlight=False, markup=False)


def _print_latency(results: list[dict[str, Any]], names: list[str]) -> None:
    rows = table("latency, ms: median (* measured alone)", "model", "threads", *names, "mlc / best", "gate")
    for record in results:
        middle = {name: one["median"] for name, one in record["ms"].items()}
        ratio = _ratio(record)
        cells = _cells(middle, names, ".3g", record["alone"])
        rows.add_row(record["model"], str(record["threads"]), *cells, f"{ratio:.2f}" if ratio else "-", gate(record))
    CONSOLE.print(rows)


def _print_facts(results: list[dict[str, Any]], names: list[str]) -> None:
    ready = table(
        "from exec to the first output, seconds; then mlc's over the compilers'",
        *("model", "threads", *names, "mlc, cached", "/ iree", "/ tvm"),
    )
    memory = table("greatest resident memory while running, MB", "model", "threads", *names, "mlc / best")
    errors = table("greatest error / greatest magnitude, unoptimised onnxruntime's", "model", "threads", *names)
    for record in results:
        head = (record["model"], str(record["threads"]))
        seconds, used = record["ready"], record["mb"]
        ours = seconds.get("mlc", float("nan"))
        ratios = [f"{ours / seconds[name]:.2f}" if name in seconds else "-" for name in ("iree", "tvm")]
        again = _cells(record["again"], ["mlc"], ".2f")
        ready.add_row(*head, *_cells(seconds, names, ".2f"), *again, *ratios)
        least = min((used[name] for name in used if name != "mlc"), default=0.0)
        share = f"{used['mlc'] / least:.2f}" if least and "mlc" in used else "-"
        memory.add_row(*head, *_cells(used, names, ".0f"), share)
        errors.add_row(*head, *_cells(record["error"], names, ".0e"))
    for one in (ready, memory, errors):
        CONSOLE.print(one)


def bench_products(args: argparse.Namespace, names: list[str]) -> list[dict[str, Any]]:
    """Matrix products, each number of threads in a process of its own."""
    contenders = products.available(["mlc", "numpy", *(name for name in names if name != "mlc")])
    results: list[dict[str, Any]] = []
    for threads in threads_of(args):
        arguments = [str(threads), str(args.seconds / 5), "5" if args.quick else "1", *contenders]
        command = [sys.executable, str(ROOT / "benchmarks" / "products.py"), *arguments]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        results += [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode:
            CONSOLE.print(f"matrix products, {threads} threads: the process ended with {done.returncode}")
    for weight, title in ((False, "both operands given"), (True, "right operand a weight")):
        _print_products([one for one in results if one["weight"] == weight], contenders, title)
    return results


def _print_products(results: list[dict[str, Any]], names: list[str], title: str) -> None:
    rows = table(
        f"matrix products, {title}, GFLOP/s",
        *("M x N x K", "threads", *names, "mlc / best", "of peak", "GB/s", "gate"),
    )
    for record in results:
        rates = record["gflops"]
        best = max((rate for name, rate in rates.items() if name != "mlc"), default=0.0)
        ratio = f"{rates['mlc'] / best:.2f}" if best else "-"
        share = f"{100 * rates['mlc'] / record['peak']:.0f} %"
        head = (" x ".join(map(str, record["shape"])), str(record["threads"]))
        rows.add_row(*head, *_cells(rates, names, ".0f"), ratio, share, f"{record['gbytes']:.0f}", gate(record))
    CONSOLE.print(rows)


SECTIONS = {"models": bench_models, "products": bench_products}


def main() -> None:
    """Run the sections; write the record and the plot."""
    parser = argparse.ArgumentParser(description="measure mlc beside its peers")
    parser.add_argument("--quick", action="store_true", help="less time and fewer shapes")
    parser.add_argument("--only", action="append", choices=tuple(SECTIONS), help="a section; may be repeated")
    parser.add_argument("--model", action="append", choices=models.NAMES, help="a model; may be repeated")
    parser.add_argument("--peer", action="append", choices=PEERS, help="a peer; may be repeated (default: all)")
    parser.add_argument("--threads", type=int, action="append", help="default: 1 and 2")
    parser.add_argument("--seconds", type=float, help="how long to measure each figure (default: 3, or 0.5 if quick)")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "peers.json", help="default: build/peers.json")
    args = parser.parse_args()
    best_blas()
    args.threads = args.threads or [1, 2]
    args.seconds = args.seconds or (0.5 if args.quick else 3.0)
    _export()
    names = _installed(args)
    machine = bench_machine(args)
    machine["versions"] = {name: version(package) for name, package in _PACKAGES.items() if name in {*names, "numpy"}}
    record: dict[str, Any] = {"machine": machine}
    args.json.parent.mkdir(parents=True, exist_ok=True)
    for name in args.only or SECTIONS:
        record[name] = SECTIONS[name](args, names)
        args.json.write_text(json.dumps(record, indent=1) + "\n")
        CONSOLE.print(f"wrote {args.json}", highlight=False)
    if record.get("models"):
        pictures = [args.json.with_suffix(suffix) for suffix in (".svg", ".png")]
        plot(record["models"], pictures)
        CONSOLE.print(f"wrote {' and '.join(map(str, pictures))}", highlight=False)


if __name__ == "__main__":
    main()
