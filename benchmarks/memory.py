"""
The memory that running a model takes, each runtime in a process of its own, and what one call allocates.

    python benchmarks/memory.py [--threads N] [--json FILE] [model ..]

A process loads the model (mlc: warm, compiled by a process before), runs it ten times and reports its greatest resident
memory, and what of its resident memory is its own and what is mapped from files. For mlc it then counts over 100 calls
that are given their outputs: bytes allocated by Python and by malloc, memory mappings and page faults a call.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[[], Any]
RUNTIMES = ("mlc", "onnxruntime", "openvino")
_CALLS = 100


def status() -> dict[str, float]:
    """MB: peak resident memory, and resident memory now, anonymous and file-backed."""
    names = {"VmHWM": "peak", "VmRSS": "resident", "RssAnon": "own", "RssFile": "mapped"}
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    return {names[key]: int(size) / 1024 for key, size, *_ in ((a[0].rstrip(":"), *a[1:]) for a in lines if len(a) > 1)
            if key in names}  # fmt: skip


def load_mlc(path: str, shapes: Any, inputs: Any, threads: int) -> tuple[Run, Any]:
    """A function that runs the model, and the Executable if there is one."""
    import mlc

    exe = mlc.compile(path, shapes=shapes or None, threads=threads)
    return lambda: exe(inputs), exe


def load_onnxruntime(path: str, shapes: Any, inputs: Any, threads: int) -> tuple[Run, Any]:
    """The same of onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, inputs), None


def load_openvino(path: str, shapes: Any, inputs: Any, threads: int) -> tuple[Run, Any]:
    """The same of OpenVINO."""
    import openvino

    core = openvino.Core()
    model = core.read_model(path)
    if shapes:
        model.reshape({name: list(shape) for name, shape in shapes.items()})
    config = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    request = core.compile_model(model, "CPU", config).create_infer_request()
    return lambda: request.infer(inputs, share_inputs=True, share_outputs=True), None


LOADERS = {"mlc": load_mlc, "onnxruntime": load_onnxruntime, "openvino": load_openvino}


def a_call(exe: Any, inputs: Any) -> dict[str, float]:
    """Bytes that a call of an mlc.Executable allocates when it is given its outputs, over many calls."""
    import ctypes
    import resource
    import tracemalloc

    import numpy as np

    class Mallinfo(ctypes.Structure):
        """glibc's mallinfo2."""

        _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks".split()]
        _fields_ += [(name, ctypes.c_size_t) for name in "uordblks fordblks keepcost".split()]

    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Mallinfo
    out = {spec.name: np.empty(spec.shape, spec.dtype) for spec in exe.outputs}
    for _ in range(10):
        exe(inputs, out=out)
    tracemalloc.start()
    exe(inputs, out=out)
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    exe(inputs, out=out)
    python = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    mapped, heap = len(Path("/proc/self/maps").read_text().splitlines()), mallinfo()
    for _ in range(_CALLS):
        exe(inputs, out=out)
    after = mallinfo()
    native = (after.uordblks + after.hblkhd) - (heap.uordblks + heap.hblkhd)
    return {
        "python bytes": python,
        "malloc bytes": native / _CALLS,
        "mappings": len(Path("/proc/self/maps").read_text().splitlines()) - mapped,
        "faults": (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults) / _CALLS,
    }


def child(runtime: str, path: str, shapes: str, inputs: str, threads: str) -> None:
    """One runtime, in this process; prints a line of JSON."""
    import numpy as np

    arrays = dict(np.load(inputs))
    run, exe = LOADERS[runtime](path, json.loads(shapes), arrays, int(threads))
    loaded = status()
    for _ in range(10):
        run()
    record = {**status(), "loaded": loaded["peak"]}
    if exe is not None:
        record |= {"a call": a_call(exe, arrays), "plan": exe.graph_json["plan"]}
    print(json.dumps(record))


def measure(runtime: str, case: Any, inputs: Path, threads: int) -> dict[str, Any]:
    """Measure a runtime in a new process; mlc in a second one, which finds the model in the cache."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
    command = [sys.executable, __file__, "--child", runtime, str(case.path), json.dumps(case.shapes), str(inputs)]
    for _ in range(2 if runtime == "mlc" else 1):
        done = subprocess.run([*command, str(threads)], capture_output=True, text=True, env=environment, check=False)
    lines = done.stdout.splitlines()
    return json.loads(lines[-1]) if done.returncode == 0 and lines else {"fails": done.stderr[-300:]}


def main() -> None:
    """Measure the models named, or all, and print a table."""
    if sys.argv[1:2] == ["--child"]:
        return child(*sys.argv[2:])
    import numpy as np
    from models import available, case
    from rich.console import Console
    from rich.table import Table

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    table = Table("model", *(f"{name}: peak (own)" for name in RUNTIMES), "ratio", "plan MB", "a call allocates")
    records: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as directory:
        for name in args.models or available():
            one, arrays = case(name, Path(directory)), Path(directory) / "inputs.npz"
            np.savez(arrays, **one.inputs)
            found = records[name] = {runtime: measure(runtime, one, arrays, args.threads) for runtime in RUNTIMES}
            peaks = {r: f["peak"] for r, f in found.items() if "peak" in f}
            cells = [f"{f['peak']:.0f} ({f['own']:.0f})" if "peak" in f else "fails" for f in found.values()]
            best = min((peak for runtime, peak in peaks.items() if runtime != "mlc"), default=float("nan"))
            plan = found["mlc"].get("plan", {}).get("bytes", 0) / 2**20
            call = " ".join(f"{k}={v:g}" for k, v in found["mlc"].get("a call", {}).items())
            table.add_row(name, *cells, f"{peaks.get('mlc', float('nan')) / best:.2f}", f"{plan:.1f}", call)
    Console(width=160).print(table)
    if args.json:
        args.json.write_text(json.dumps(records, indent=1))


if __name__ == "__main__":
    main()
