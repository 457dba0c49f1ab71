"""
Read a line of text in a picture with a model that mlc compiles; `make demo` runs this.

    examples/line.png -> pixels -> PP-OCRv4 recognition, compiled here -> scores of characters -> text

The model is in the wheel of rapidocr-onnxruntime. What happened on each level of the compiler is printed, then the
latency (beside onnxruntime's, if it is installed), then examples/mlp.mlir as mlc-opt lowers it.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from PIL import Image
from rich.console import Console
from rich.table import Table

import mlc

HERE = Path(__file__).resolve().parent
SHAPE = (1, 3, 48, 320)
# examples/mlp.mlir to register tiles: the pipelines are listed by `mlc-opt --show-pipeline=NAME`.
TO_TILES = (
    "graph-fuse-ops,graph-outline-kernels,convert-graph-to-te,te-inline,te-add-schedule,"
    "convert-te-to-loop,loop-apply-schedule,loop-tiles"
)
WORDS = ("level", "phase", "what", "what they are")
LEVELS = {
    "imported": "graph ops, as the file has them",
    "graph": "graph ops, fused into kernels",
    "te": "te and sched ops: index expressions, and how to run them",
    "loop": "loop ops: nests over register tiles",
    "llvm": "llvm ops: native vectors",
}


def model_path() -> Path:
    """The recognition model in the installed wheel; the package itself is not imported (it would import OpenCV)."""
    spec = find_spec("rapidocr_onnxruntime")
    if spec is None or spec.origin is None:
        raise SystemExit("expected rapidocr-onnxruntime to be installed; run `make venv`")
    return Path(spec.origin).parent / "models" / "ch_PP-OCRv4_rec_infer.onnx"


def read_picture(path: Path) -> np.ndarray[Any, Any]:
    """A picture as the model wants it: 48 rows, 320 columns padded with 0, planes B, G, R between -1 and 1."""
    image = Image.open(path).convert("RGB")
    _, _, height, width = SHAPE
    columns = min(width, max(1, round(image.width * height / image.height)))
    image = image.resize((columns, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(image, np.float32)[:, :, ::-1].transpose(2, 0, 1) / 127.5 - 1
    picture = np.zeros(SHAPE, np.float32)
    picture[0, :, :, :columns] = pixels
    return picture


def alphabet(path: Path) -> list[str]:
    """The character of each class, from the model's metadata: the first class is 'none', the last a space."""
    facts = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    return ["", *facts["character"].splitlines(), " "]


def decode(scores: np.ndarray[Any, Any], characters: list[str]) -> str:
    """Greedy CTC: the best class of each column, repetitions once, without 'none'."""
    best = scores.reshape(-1, scores.shape[-1]).argmax(axis=1)
    return "".join(characters[c] for c, before in zip(best, [0, *best[:-1]], strict=True) if c != before).strip()


def in_turns(runs: dict[str, Callable[[], Any]], seconds: float) -> dict[str, list[float]]:
    """Milliseconds of each run, taken in turns."""
    for run in runs.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            times[name].append(1e3 * (time.perf_counter() - start))
    return times


def onnxruntime_run(path: Path, picture: np.ndarray[Any, Any]) -> Callable[[], Any] | None:
    """The same model in onnxruntime on one thread, if it is installed."""
    if find_spec("onnxruntime") is None:
        return None
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": picture})[0]


def table(title: str, *columns: str) -> Table:
    """A table whose columns but the first and the wordy ones stand right."""
    result = Table(title=title, title_justify="left", title_style="bold", min_width=len(title))
    for heading in columns:
        result.add_column(heading, justify="left" if heading in ("", *WORDS) else "right")
    return result


def show_levels(console: Console, exe: mlc.Executable) -> None:
    """Print the operations of each level, the memory, and the time of each phase."""
    report, model = exe.report, exe.artifact.model
    levels = table("level by level", "level", "ops", "what they are")
    for level, count in report["ops"].items():
        levels.add_row(level, str(count), LEVELS.get(level, ""))
    console.print(levels)
    plan = model["plan"]
    facts = table("the program", "what", "how much")
    facts.add_row("kernel calls", str(report["calls"]))
    facts.add_row("distinct kernels", str(report["kernels"]))
    facts.add_row("workspace, planned", f"{plan['bytes'] / 2**20:.2f} MiB")
    facts.add_row("all intermediates together", f"{plan['sum'] / 2**20:.2f} MiB")
    facts.add_row("weights", f"{model['weights_bytes'] / 2**20:.2f} MiB")
    console.print(facts)
    phases = table("where the time went", "phase", "seconds")
    for name, seconds in report["timing"]:
        if "/" not in name:
            phases.add_row(name, f"{seconds:.2f}")
    phases.add_row("total", f"{report['seconds']:.2f}", style="bold")
    console.print(phases)


def show_tiles(console: Console) -> None:
    """One run of mlc-opt."""
    source = HERE / "mlp.mlir"
    console.print(f"\n[bold]$ mlc-opt examples/{source.name}[/]", highlight=False)
    console.print(source.read_text(), markup=False, highlight=False, soft_wrap=True)
    console.print(f"[bold]$ mlc-opt examples/{source.name} -p '{TO_TILES}'[/]", highlight=False, soft_wrap=True)
    command = [sys.executable, "-m", "mlc.tools.mlc_opt", str(source), "-p", TO_TILES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    console.print(done.stdout, markup=False, highlight=False, soft_wrap=True)


def main() -> None:
    """The demo."""
    parser = argparse.ArgumentParser(description="read a line of text in a picture with a compiled model")
    parser.add_argument("picture", nargs="?", type=Path, default=HERE / "line.png", help="default: examples/line.png")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long to measure the latency (default: 3)")
    args = parser.parse_args()
    console = Console()
    path = model_path()
    picture = read_picture(args.picture)
    console.print(f"compiling {path.name} for x = {'x'.join(map(str, SHAPE))} ...")
    exe = mlc.compile(path, shapes={"x": SHAPE}, threads=1, cache=False)
    show_levels(console, exe)
    run = lambda: next(iter(exe({"x": picture}).values()))  # noqa: E731
    scores = run()
    console.print(f"\nthe picture says: [bold green]{decode(scores, alphabet(path))}[/]\n", highlight=False)
    runs = {"mlc": run}
    if peer := onnxruntime_run(path, picture):
        runs["onnxruntime"] = peer
        worst = np.max(np.abs(scores - peer())) / np.max(np.abs(scores))
        console.print(f"greatest difference from onnxruntime / greatest magnitude: {worst:.1e}", highlight=False)
    latency = table("latency on one thread, taken in turns, milliseconds", "", "median", "least")
    for name, times in in_turns(runs, args.seconds).items():
        latency.add_row(name, f"{statistics.median(times):.2f}", f"{min(times):.2f}")
    console.print(latency)
    show_tiles(console)


if __name__ == "__main__":
    main()
