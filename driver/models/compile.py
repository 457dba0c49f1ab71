"""
From a model to an Executable: graph passes, kernels in forked workers, @main, one artifact.

    file -> key -> the model cache, else:
    load -> graph passes -> @main on buffers -> check the plan
                         -> kernels (cached, or lowered and emitted in workers)
    -> mlc_main -> objects, weights.bin, model.json -> published in the cache -> Executable

This file imports nothing heavy before the cache has been asked.
"""

from __future__ import annotations

import os
import re
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mlc.driver.cache import Cache, key_of
from mlc.driver.memory_options import MemoryOptions
from mlc.driver.models.file_key import file_parts
from mlc.driver.options import EXECUTORS, Options, current_context, level_in
from mlc.runtime.artifact import Artifact
from mlc.support.collector import rarely_collected
from mlc.support.display.timing import PhaseTimer
from mlc.support.errors import UserError, located
from mlc.support.records import RecordsLike, given_records
from mlc.support.scratch import ending_in_order, remove_scratch
from mlc.targets.device import Device, devices_of
from mlc.targets.target import TargetLike, target_text

if TYPE_CHECKING:
    from mlc.driver.models.load import Source
    from mlc.frontends.common.model import Model
    from mlc.runtime.executable import Executable
    from mlc.support.registered.memory_pools import DeclaredPool

Shapes = Mapping[str, Sequence[int | str]]


@located()
def compile(
    model: Source,
    target: TargetLike = "native",
    opt_level: int | None = None,
    threads: int | None = None,
    executor: str = "auto",
    shapes: Shapes | None = None,
    cache: bool = True,
    validate_each: bool = False,
    schedules: str | os.PathLike[str] | None = None,
    precision: str = "f32",
    error_growth: float = 16.0,
    symbols: Mapping[str, Sequence[int]] | None = None,
    specialize: bool | int = False,
    vm_functions: int = 128,
    vm_memory: int | None = None,
    memory_planner: str = "best",
    memory_seed: int = 0,
    pools: Sequence[DeclaredPool] = (),
    compilers: Sequence[str] = (),
    devices: Mapping[str, TargetLike | Device] | None = None,
    records: RecordsLike = None,
) -> Executable:
    """
    Compile a Model, an ONNX model, a torch.export program, or a file (.onnx, .mlir, .pt2).

    `target` is the machine, by default this one: a name, TVM's text or dictionary, or a Target (docs/devices.md).
    Code for a CPU with features that this one lacks can be saved and exported here; calling it raises UserError, which
    names them.
    `executor` is "aot" (one native function), "graph" (TVM's graph executor: docs/executors.md), "steps" (kernel by
    kernel from Python, control flow included), "vm" (bytecode, which may compile what only the data decides when it is
    called: docs/vm.md), or "auto": "aot", and "vm" with a warning where "aot" refuses the model. The vm keeps
    `vm_functions` functions that it compiled at calls, and takes at most `vm_memory` bytes for intermediates (None: no
    limit).
    `shapes` gives input shapes that a file leaves open, `symbols` what sizes may be that stay open (mlc.load).
    `threads`: one for each CPU that this process may use. `validate_each` runs every function in the reference
    interpreters before and after each pass, and stops at the first that changes a result (slow).
    `schedules` is a directory of schedules by hand (driver/models/schedules.py). `precision` is what convolutions and
    dense layers multiply: "f32", "bf16" (stored so between them), or "f16" (weights only); they add in f32.
    `error_growth` is how much fast algorithms may enlarge the rounding error of a convolution (0: direct sums only).
    `memory_planner` places the intermediates (lowering/memory/planners.py); "hill-climb" draws with `memory_seed`, and
    "best" of the executor "graph" is "tokens", whose buffers share memory as its storage ids do.
    `pools` are regions of memory, mlc.WorkspacePool and mlc.ConstantPool, that must suffice, in the order of use.
    `compilers` are the names of external compilers (mlc.register_compiler) that may take over parts of the model.
    `specialize` compiles a model of symbolic sizes for each shape of its inputs, and keeps this many (True: 8).

    `devices` are further ones by name, on which graph.on_device places values; kernels there are for their targets.
    `records` is a database of measured schedules, asked before those of the contexts around the call (mlc.records) and
    of installed packages; False: no records at all.

    Raises UserError for a model that cannot be compiled, and for an option out of range.
    """
    from mlc.driver.models.schedules import Schedules
    from mlc.support.threads import thread_count

    if executor not in EXECUTORS:
        raise UserError(f"expected executor to be one of {', '.join(EXECUTORS)}, but got '{executor}'")
    handed, context, threads = Schedules.read(schedules), current_context(), thread_count(threads)
    level = level_in(context, opt_level)
    if isinstance(compilers, str):
        raise UserError(f"expected compilers as a list of names, but got '{compilers}'")
    memory = MemoryOptions.of(memory_planner, memory_seed, pools)
    options = Options(
        target_text(target),
        level,
        threads,
        frozenset(),
        validate_each,
        handed,
        precision,
        error_growth,
        context,
        executor != "graph",
        compilers=tuple(compilers),
        memory=memory,
        devices=devices_of(devices),
        records=given_records(records),
    )
    store = Cache.default() if cache and not validate_each and not options.instruments else None
    if specialize is not False:
        return _specialized(model, options, executor, store, shapes, symbols, specialize)
    if executor not in ("auto", "vm"):
        return opened(model, options, executor, store, shapes, symbols)
    from mlc.driver.vm.choice import VmSettings, chosen

    return chosen(model, executor, VmSettings(options, store, vm_functions, vm_memory), shapes, symbols)


def _specialized(
    model: Source,
    options: Options,
    executor: str,
    store: Cache | None,
    shapes: Shapes | None,
    symbols: Mapping[str, Sequence[int]] | None,
    specialize: bool | int,
) -> Executable:
    """An executable that compiles a model of symbolic sizes for each shape that it is called with."""
    from mlc.driver.models.specialize import SpecializedExecutable, kept_of

    if executor == "vm":
        raise UserError("expected specialize= with the executor aot or graph; the vm compiles what a call needs itself")
    executor = "aot" if executor == "auto" else executor
    kept, loaded = kept_of(specialize), load_model(model, shapes, symbols)
    build = partial(opened, options=options, executor=executor, store=store, name=_name(model))
    return SpecializedExecutable(loaded, kept, build, options.threads, executor)


def opened(
    model: Source,
    options: Options,
    executor: str,
    store: Cache | None,
    shapes: Shapes | None = None,
    symbols: Mapping[str, Sequence[int]] | None = None,
    name: str = "",
) -> Executable:
    """The executable of a model, compiled now or taken from the cache."""
    from mlc.driver.toolchain import LLVM
    from mlc.runtime.symbolic import compiled_executable

    artifact, owned = build_artifact(model, options, shapes, store, symbols=symbols, name=name)
    try:
        executable = compiled_executable(artifact, options.threads, executor, LLVM())
    except BaseException:
        if owned:
            remove_scratch(artifact.path)
        raise
    if owned:
        weakref.finalize(executable, remove_scratch, artifact.path)
    return executable


@located()
@rarely_collected()
def build_artifact(
    source: Source,
    options: Options,
    shapes: Shapes | None,
    cache: Cache | None,
    symbols: Mapping[str, Sequence[int]] | None = None,
    name: str = "",
) -> tuple[Artifact, bool]:
    """The compiled model, and whether its directory belongs to the caller (it is not the cache's)."""
    timing = PhaseTimer()
    key = ""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        key = "" if cache is None else key_of([*file_parts(path, cache), *_plain(shapes, symbols), options.model_key()])
        if cache is not None and (found := _cached(cache, key, options)) is not None:
            return found, False
    from mlc.frontends.common.model import Model

    with timing.phase("load"):
        model = load_model(source, shapes, symbols, mapped=True)
    if cache is not None and not key:
        key = key_of([*_model_parts(model), options.model_key()])
        if (found := _cached(cache, key, options)) is not None:
            return found, False
    if isinstance(source, Model):
        from mlc.driver.models.bind_sizes import copied

        model = copied(model)
    from mlc.driver.models.compilation import Compilation

    compilation = Compilation(model, options, cache, timing, name or _name(source))
    directory = cache.drafts if cache is not None else Path(tempfile.gettempdir())
    with ending_in_order():
        artifact = compilation.write(directory)
        if cache is None:
            return artifact, True
        key = cache.note_asked(key, options.records, compilation.questions())
        return cache.publish_model(key, artifact), False


def _cached(cache: Cache, key: str, options: Options) -> Artifact | None:
    """A model of the cache that was compiled with what the records answer now."""
    found = (cache.model(one) for one in cache.keys(key, options.records))
    return next((one for one in found if one is not None), None)


def load_model(
    source: Source,
    shapes: Shapes | None = None,
    symbols: Mapping[str, Sequence[int]] | None = None,
    mapped: bool = False,
) -> Model:
    """`mlc.load`, imported late; where `mapped`, large weights stay in the file, for a model that is not given away."""
    from mlc.driver.models.load import load_mapped

    return load_mapped(source, shapes, symbols, mapped)


def _plain(*given: Shapes | None) -> list[str]:
    """Shapes and symbols as parts of a cache key; wrong ones are refused when the model is loaded."""
    return [
        repr(
            sorted(
                (str(n), tuple(s) if isinstance(s, Sequence) else s)  # pyright: ignore[reportUnnecessaryIsInstance] callers need not be typed
                for n, s in one.items()
            )
            or None
        )
        if isinstance(one, Mapping)
        else repr(one)
        for one in given
    ]


def _model_parts(model: Model) -> list[bytes | str]:
    """The text of a model in memory, and the hashes of its weights."""
    return [str(model.module), *(f"{name} {model.weights.hash(name)}" for name in model.weights)]


def _name(source: Source) -> str:
    """A name for the model."""
    stem = Path(source).stem if isinstance(source, str | os.PathLike) else "model"
    return re.sub(r"\W", "_", stem) or "model"
