"""
Measure mlc beside onnxruntime and OpenVINO over architectures of timm and torchvision; `make bench-architectures`.

    python benchmarks/architectures.py [--seed 0] [--count 30] [--threads 1,2] [--only REGEX] [--quick] [--json FILE]

The seed draws names and weights. Each model is exported by torch.export as ONNX, at a small picture where it allows
one; those with more than --parameters millions of weights are drawn again. Times are taken as in benchmarks/kinds.py.
A model that mlc cannot compile is listed with the compiler's message.
"""

import argparse
import random
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from beside import Entry, Settings, first_line, measure
from contenders import define_torchvision_operators
from kinds import CONSOLE, add_options, print_tables, progress, thread_counts, write

_SECONDS, _QUICK_SECONDS = 0.5, 0.15
_SMALL = 128  # pixels
_TOLERANCE = 1e-3  # of the greatest magnitude, after tens of layers


@dataclass(frozen=True)
class Architecture:
    """A network by name; `make` takes the picture's size, or None for the one that it was designed for."""

    name: str
    make: Callable[[int | None], Any]
    size: int
    """The picture that it was designed for, in pixels."""


def architectures() -> list[Architecture]:
    """All classifiers of timm and torchvision."""
    missing = [name for name in ("timm", "torchvision", "onnxscript") if find_spec(name) is None]
    if missing:
        names = ", ".join(missing)
        raise SystemExit(f"expected {names} to be installed; `make bench-architectures` installs what it needs")
    define_torchvision_operators()
    timm, torchvision = import_module("timm"), import_module("torchvision")

    found = [_timm(timm, name) for name in timm.list_models()]
    names = torchvision.models.list_models(module=torchvision.models)
    return [*found, *(_torchvision(torchvision, name) for name in names)]


def _timm(timm: Any, name: str) -> Architecture:
    def make(size: int | None) -> Any:
        return timm.create_model(name, pretrained=False, **({} if size is None else {"img_size": size}))

    config = timm.models.get_pretrained_cfg(name)
    return Architecture(f"timm/{name}", make, config.input_size[-1] if config else 224)


def _torchvision(torchvision: Any, name: str) -> Architecture:
    make = torchvision.models.get_model_builder(name)
    return Architecture(f"torchvision/{name}", lambda size: make(weights=None), 299 if name == "inception_v3" else 224)


def drawn(seed: int, only: str) -> Iterator[Architecture]:
    """The architectures whose name the expression finds, in an order that the seed draws."""
    found = [one for one in architectures() if re.search(only, one.name)]
    if not found:
        raise SystemExit(f"expected --only to name an architecture, but '{only}' finds none")
    random.Random(seed).shuffle(found)
    yield from found


def instance(one: Architecture, seed: int, most_parameters: float) -> tuple[Any, int] | None:
    """The network with weights of the seed, and the size of its picture; None if it has too many weights."""
    import torch

    with torch.device("meta"):
        parameters = sum(weight.numel() for weight in one.make(None).parameters())
    if parameters > most_parameters:
        return None
    for size in (None, _SMALL):
        torch.manual_seed(seed)
        try:
            module = one.make(size).eval()
            with torch.inference_mode():
                module(torch.zeros(1, 3, _SMALL, _SMALL))
            return module, _SMALL
        except Exception:  # it does not take that argument, or not a picture of that size
            continue
    torch.manual_seed(seed)
    return one.make(None).eval(), one.size


def export(module: Any, size: int, path: Path) -> dict[str, Any]:
    """Write the network as ONNX; returns inputs."""
    import torch

    picture = np.random.default_rng(0).uniform(-1, 1, (1, 3, size, size)).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            (torch.from_numpy(picture),),
            path,
            input_names=["picture"],
            opset_version=20,
            dynamo=True,
            external_data=False,
            verbose=False,
        )
    return {"picture": picture}


def run_architectures(args: argparse.Namespace, counts: list[int]) -> dict[int, list[Entry]]:
    """Measure `args.count` architectures, each with each number of threads."""
    results: dict[int, list[Entry]] = {threads: [] for threads in counts}
    seconds = _QUICK_SECONDS if args.quick else _SECONDS
    with progress() as bar, tempfile.TemporaryDirectory(prefix="mlc.") as directory:
        task = bar.add_task("", total=args.count)
        path = Path(directory) / "model.onnx"
        for one in drawn(args.seed, args.only):
            bar.update(task, description=one.name)
            try:
                made = instance(one, args.seed, 1e6 * args.parameters)
                if made is None:
                    continue
                inputs = export(*made, path)
            except Exception as error:  # PyTorch cannot make or export it: it says nothing about a compiler
                bar.console.print(f"{one.name} is left out: {first_line(error)}", markup=False)
                continue
            for threads, entries in results.items():
                settings = Settings(threads, seconds, _TOLERANCE, args.avx2)
                entries.append(measure(one.name, f"{made[1]} pixels", path, inputs, settings))
                write(args, results, {"seed": args.seed}, quiet=True)
            bar.advance(task)
            if len(results[counts[0]]) == args.count:
                break
    return results


def main() -> None:
    """Measure; print and write the figures."""
    parser = argparse.ArgumentParser(description="measure mlc beside onnxruntime and OpenVINO over architectures")
    add_options(parser, "architectures.json")
    parser.add_argument("--count", type=int, default=30, help="how many architectures (default: 30)")
    parser.add_argument("--only", default="", metavar="REGEX", help="draw from names that it finds (default: all)")
    parser.add_argument("--parameters", type=float, default=60, help="millions of weights at most (default: 60)")
    args = parser.parse_args()
    counts = thread_counts(args.threads)
    onnxruntime.set_default_logger_severity(3)
    results = run_architectures(args, counts)
    for threads, entries in results.items():
        CONSOLE.print(f"{threads} thread{'s' * (threads > 1)}", style="bold")
        print_tables(entries)
    write(args, results, {"seed": args.seed})


if __name__ == "__main__":
    main()
