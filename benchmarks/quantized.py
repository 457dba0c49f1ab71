"""
Measure quantised models: mlc beside onnxruntime and OpenVINO, in bytes and floats; `make bench-quantized` runs this.

    python benchmarks/quantized.py [--quick] [--model resnet50] [--threads 1] [--prepare] [--seven-bits]

Each float model is quantised by onnxruntime (`quantize_static`: pairs, unsigned data, signed weights a channel; text
encoders by `quantize_dynamic`, too) and by `mlc.quantize`, with the same inputs. Prints times and how far values are
apart, and writes every figure with its spread as JSON. Quantised files stay in build/quantized; `--prepare` only makes
them, and compiles, so that a later run measures nothing but running. `--seven-bits`: all weights are from -63 to 63;
without dot products of bytes onnxruntime and OpenVINO saturate sums of products of larger ones. How figures are taken:
benchmarks/measure.py.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import models
import numpy as np
import onnx
import onnx.version_converter
from contenders import openvino_request
from measure import best_blas, gate, in_turns
from run import CONSOLE, ROOT, table, threads_of

import mlc

Run = Callable[[], Any]
Arrays = Mapping[str, Any]
KEPT = ROOT / "build" / "quantized"
NAMES = tuple(name for name in models.NAMES if name != "magika")
"""magika reads bytes and looks them up: it has hardly a product."""
_SAMPLES, _PROBES = 4, 8
_OPSET = 13
PAIRS, DYNAMIC, CALIBRATED = "pairs", "dynamic", "mlc.quantize"


class _Reader:
    """Samples, as onnxruntime wants to be given them."""

    def __init__(self, samples: list[Arrays]) -> None:
        self.left = iter(samples)

    def get_next(self) -> Arrays | None:
        """The next sample."""
        return next(self.left, None)


def _raise_opset(path: Path) -> None:
    """A scale a channel came with version 13 of the operators."""
    model = onnx.load(path)
    if max(one.version for one in model.opset_import if not one.domain) < _OPSET:
        onnx.save(onnx.version_converter.convert_version(model, _OPSET), path)


class Quantised:
    """A model in floats and in bytes, as files."""

    def __init__(self, name: str, weight_bits: int = 8) -> None:
        KEPT.mkdir(parents=True, exist_ok=True)
        self.weight_bits, self.suffix = weight_bits, "" if weight_bits == 8 else str(weight_bits)
        self.case = models.case(name, KEPT)
        self.stem = KEPT / name.replace(" ", "-")
        self.float = self.file("f32")
        if not self.float.exists():
            self.case.save_fixed(self.float)
            _raise_opset(self.float)
        self.probes = [self._other(seed) for seed in range(1, 1 + _PROBES)]
        self.pairs = self._make(PAIRS, self._static)
        self.dynamic = self._make(DYNAMIC, self._dynamic) if self._is_text else None
        self.calibrated = self.stem.with_name(f"{self.stem.name}.int{weight_bits}.mlir")
        if not self.calibrated.exists():
            mlc.quantize(self.float, self._samples, weight_bits=weight_bits).save(self.calibrated)

    def file(self, kind: str) -> Path:
        """Where the model of a kind lies."""
        return self.stem.with_name(f"{self.stem.name}.{kind}.onnx")

    @property
    def _is_text(self) -> bool:
        return "attention_mask" in self.case.inputs

    @property
    def _samples(self) -> list[Arrays]:
        return [self._other(seed) for seed in range(101, 101 + _SAMPLES)]

    def _other(self, seed: int) -> Arrays:
        """Inputs like the model's, of other numbers."""
        rng = np.random.default_rng(seed)
        other = {name: rng.permuted(a.reshape(-1)).reshape(a.shape) for name, a in self.case.inputs.items()}
        return other | {name: self.case.inputs[name] for name in other if "mask" in name}

    def _make(self, kind: str, make: Callable[[Path], None]) -> Path:
        path = self.file(kind + self.suffix)
        if not path.exists():
            make(path)
        return path

    def _static(self, path: Path) -> None:
        from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

        options: Any = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "per_channel": True}
        options["reduce_range"] = self.weight_bits == 7
        if self._is_text:
            options["op_types_to_quantize"] = ["MatMul", "Gemm"]  # a mask's least number leaves no levels for others
        reader: Any = _Reader(self._samples)
        quantize_static(self.float, path, reader, quant_format=QuantFormat.QDQ, **options)

    def _dynamic(self, path: Path) -> None:
        from onnxruntime.quantization import QuantType, quantize_dynamic

        reduced = self.weight_bits == 7
        quantize_dynamic(self.float, path, weight_type=QuantType.QInt8, per_channel=True, reduce_range=reduced)

    def runs(self, threads: int) -> dict[str, Callable[[Arrays], list[Any]]]:
        """The measured programs by name, each a function of the inputs."""
        files = {"f32": self.float, PAIRS: self.pairs, DYNAMIC: self.dynamic, CALIBRATED: self.calibrated}
        found: dict[str, Callable[[Arrays], list[Any]]] = {}
        for kind, path in files.items():
            if path is None:
                continue
            found[f"mlc {kind}"] = partial(_run, mlc.compile(path, threads=threads))
            if kind != CALIBRATED:
                found[f"ort {kind}"] = partial(models.session(path, threads).run, None)
        return found

    def openvino_runs(self, threads: int) -> dict[str, Callable[[Arrays], list[Any]]]:
        """OpenVINO's programs of the files in bytes; nothing where it is not installed, or cannot read a file."""
        if find_spec("openvino") is None:
            return {}
        found: dict[str, Callable[[Arrays], list[Any]]] = {}
        for kind, path in ((PAIRS, self.pairs), (DYNAMIC, self.dynamic)):
            if path is None:
                continue
            try:
                request = openvino_request(path, threads)
            except RuntimeError as error:
                CONSOLE.print(f"openvino {kind} of {self.case.name}: {str(error).splitlines()[0]}", highlight=False)
                continue
            found[f"ov {kind}"] = partial(_infer, request)
        return found


def _run(exe: Any, inputs: Arrays) -> list[Any]:
    return [np.array(a) for a in exe(inputs).values()]


def _infer(request: Any, inputs: Arrays) -> list[Any]:
    return list(request.infer(dict(inputs), share_inputs=True, share_outputs=True).values())


def _step(path: Path) -> float | None:
    """The scale of the first output's last pair."""
    graph = onnx.load(path).graph
    last = next((n for n in graph.node if n.output[0] == graph.output[0].name), None)
    if last is None or last.op_type != "DequantizeLinear":
        return None
    scale = next(onnx.numpy_helper.to_array(one) for one in graph.initializer if one.name == last.input[1])
    return float(scale.reshape(-1)[0])


def _apart(found: list[Any], wanted: list[Any], step: float | None) -> dict[str, float]:
    """Greatest difference, and the share of elements off by more than half a step (or 1/1000 of the maximum)."""
    a, b = (np.concatenate([one[0].reshape(-1) for one in group]).astype(np.float64) for group in (found, wanted))
    apart = np.abs(a - b) / (step or float(np.abs(b).max()))
    return {"most": float(apart.max()), "share": float((apart > (0.5 if step else 1e-3)).mean())}


def _likeness(found: list[Any], wanted: list[Any]) -> dict[str, float]:
    """Cosine of first outputs and how often the largest is the same, along the last axis."""
    pairs = [(a[0].astype(np.float64), b[0].astype(np.float64)) for a, b in zip(found, wanted, strict=True)]
    cosines = [float((a * b).sum() / max(1e-30, np.linalg.norm(a) * np.linalg.norm(b))) for a, b in pairs]
    same = [float((a.argmax(-1) == b.argmax(-1)).mean()) for a, b in pairs]
    return {"cosine": float(np.mean(cosines)), "same": float(np.mean(same))}


def agreement(model: Quantised) -> dict[str, Any]:
    """Differences of mlc's results from onnxruntime's, and of the int8 model's from the float model's."""
    runs = model.runs(1)
    found = {name: [run(probe) for probe in model.probes] for name, run in runs.items()}
    result: dict[str, Any] = {"like f32": {n: _likeness(f, found["ort f32"]) for n, f in found.items()}}
    for kind, path in ((PAIRS, model.pairs), (DYNAMIC, model.dynamic)):
        if path is None:
            continue
        session = models.session(path, 1, optimised=False)
        plain = [session.run(None, probe) for probe in model.probes]
        step = _step(path)
        result[kind] = {
            "step": step,
            "mlc": _apart(found[f"mlc {kind}"], plain, step),
            "ort": _apart(found[f"ort {kind}"], plain, step),
            "both": _apart(found[f"mlc {kind}"], found[f"ort {kind}"], step),
        }
    return result


def _print_times(records: list[dict[str, Any]]) -> None:
    names = list(dict.fromkeys(name for record in records for name in record["ms"]))
    rows = table("ms, the least of all calls", "model", "threads", *names, "int8 / f32", "pairs / best peer", "gate")
    by_threads: dict[int, list[float]] = {}
    for record in records:
        least = {name: one["min"] for name, one in record["ms"].items()}
        cells = [f"{least[name]:.3g}" if name in least else "-" for name in names]
        peer = min(ms for name, ms in least.items() if name in (f"ort {PAIRS}", f"ov {PAIRS}"))
        ratios = least[f"mlc {PAIRS}"] / least["mlc f32"], least[f"mlc {PAIRS}"] / peer
        by_threads.setdefault(record["threads"], []).append(ratios[1])
        head = (record["model"], str(record["threads"]))
        rows.add_row(*head, *cells, *(f"{ratio:.2f}" for ratio in ratios), gate(record))
    CONSOLE.print(rows)
    for threads, ratios in by_threads.items():
        mean = statistics.geometric_mean(ratios)
        CONSOLE.print(f"{threads} threads: pairs / best peer, geometric mean {mean:.2f}", highlight=False)


def _like(values: Mapping[str, Any], name: str) -> str:
    like = values["like f32"][name]
    return f"{like['cosine']:.4f}, {like['same']:.0%}"


def _print_values(values: Mapping[str, Any]) -> None:
    rows = table(
        "values: greatest distance and how many differ, from unoptimised onnxruntime; from floats: cosine, same top 1",
        *("model", "file", "in", "mlc", "onnxruntime", "between them", "mlc, floats", "onnxruntime, floats"),
    )
    for name, one in values.items():
        for kind in [kind for kind in (PAIRS, DYNAMIC) if kind in one]:
            apart = [f"{one[kind][who]['most']:.2g}, {one[kind][who]['share']:.1%}" for who in ("mlc", "ort", "both")]
            likes = [_like(one, f"{who} {kind}") for who in ("mlc", "ort")]
            rows.add_row(name, kind, "steps" if one[kind]["step"] else "of most", *apart, *likes)
        rows.add_row(name, CALIBRATED, "", "", "", "", _like(one, f"mlc {CALIBRATED}"), "")
    CONSOLE.print(rows)


def main() -> None:
    """Quantise, measure, and write the record."""
    parser = argparse.ArgumentParser(description="measure quantised models beside onnxruntime and OpenVINO")
    parser.add_argument("--quick", action="store_true", help="less time")
    parser.add_argument("--prepare", action="store_true", help="make and compile the models only")
    parser.add_argument("--seven-bits", action="store_true", help="weights from -63 to 63")
    parser.add_argument("--only", choices=("times", "values"), help="default: both")
    parser.add_argument("--model", action="append", choices=NAMES, help="a model; may be repeated")
    parser.add_argument("--threads", type=int, action="append", help="default: 1 and 2")
    parser.add_argument("--seconds", type=float, help="how long to measure each figure (default: 3, or 0.5 if quick)")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "quantized.json", help="default: build/..")
    args = parser.parse_args()
    best_blas()
    args.threads = args.threads or [1, 2]
    seconds = args.seconds or (0.5 if args.quick else 3.0)
    record: dict[str, Any] = {"times": [], "values": {}}
    for name in args.model or [one for one in NAMES if one in models.available()]:
        model = Quantised(name, 7 if args.seven_bits else 8)
        for threads in threads_of(args):
            programs = model.runs(threads) | model.openvino_runs(threads)
            runs = {who: partial(run, model.case.inputs) for who, run in programs.items()}
            if not args.prepare and args.only != "values":
                record["times"].append({"model": name, **in_turns(runs, seconds, threads)})
        if not args.prepare and args.only != "times":
            record["values"][name] = agreement(model)
    if record["times"]:
        _print_times(record["times"])
    if record["values"]:
        _print_values(record["values"])
    if not args.prepare:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(record, indent=1) + "\n")
        CONSOLE.print(f"wrote {args.json}", highlight=False)


if __name__ == "__main__":
    main()
