"""Writes the directory of a package: compiles the model, records values, fills the templates."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mlc.driver.cache import Cache
from mlc.driver.export import library as lib
from mlc.driver.export.cpu_check import check_text
from mlc.driver.export.package import interface, programs, project
from mlc.driver.export.package.c_source import CSource, weights_text
from mlc.driver.export.package.functions import LibraryFunction, library_functions
from mlc.driver.export.package.spec import PackageSpec, package_name
from mlc.driver.export.sizes import size_functions
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.compile import build_artifact, load_model
from mlc.driver.options import Options
from mlc.driver.toolchain import LLVM
from mlc.runtime.artifact import WEIGHTS, Artifact
from mlc.runtime.cpu import needed_features
from mlc.runtime.sizes import Sizes, evaluate
from mlc.runtime.symbolic import compiled_executable
from mlc.support.bounded_sizes import bounded_sizes
from mlc.support.dtypes import dtype_of
from mlc.support.errors import UserError, located
from mlc.support.scratch import remove_scratch, scratch_directory

if TYPE_CHECKING:
    from mlc.driver.models.compile import Shapes
    from mlc.driver.models.load import Source

_WEIGHTS_TEXT = """\
@{prefix}_weights = external hidden global i8
; The address in 64 bits: the weights may lie farther from the code than its instructions reach.
@{prefix}_weights_at = hidden global ptr @{prefix}_weights, align 8
"""
TYPICAL_SIZE = 64
"""The value of an open size on which values are recorded, where the model does not exclude it."""


@located()
def write_package(
    source: Source,
    directory: Path,
    options: Options,
    *,
    name: str,
    lang: str = "a",
    weights: str = "embed",
    malloc: bool = True,
    shapes: Shapes | None = None,
    symbols: Mapping[str, Sequence[int]] | None = None,
    cache: Cache | None = None,
) -> PackageSpec:
    """
    Compile a model and write it as a package into `directory`, which must not exist or be empty.

    `lang` is the form of the program: "a" (static library), "so" (shared library) or "c" (C99 source). `weights` are
    in the program ("embed") or in a file that the caller reads ("beside"). With `options.threads` 1 the program
    neither has nor needs a thread pool; without `malloc` it calls no allocator, and each call needs an arena.

    Raises UserError for a directory that has files, for options that contradict each other, and where a tool fails.
    """
    name = package_name(name)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UserError(f"expected a new or empty directory to write the package to, but {directory} is none")
    if not malloc and options.threads > 1:
        raise UserError("expected --threads 1 with --no-malloc, because a pool of threads allocates memory")
    model = load_model(source, shapes, symbols)
    with scratch_directory() as scratch:
        made = scratch / "package"
        for part in ("include", "examples", "test"):
            (made / part).mkdir(parents=True)
        spec = PackageSpec(name, {}, lang, weights, options.threads, malloc, {})
        recorded, registered = _record(source, options, shapes, symbols, cache, made / "test")
        spec = replace(spec, recorded=recorded, registered=registered)
        if lang == "c":
            spec = _c_program(spec, Compilation(model, options, name=name), made, scratch)
        else:
            spec = _library(spec, source, options, (shapes, symbols), cache, made, scratch)
        _write_texts(spec, made)
        directory.mkdir(parents=True, exist_ok=True)
        shutil.copytree(made, directory, dirs_exist_ok=True)
    return spec


def _write_texts(spec: PackageSpec, made: Path) -> None:
    """The files that are the same for every form of the program."""
    sources = sorted(path.name for path in (made / "src").glob("*.c")) if spec.lang == "c" else []
    texts = {
        f"include/{spec.name}.h": interface.header(spec),
        "examples/main.c": programs.example(spec),
        "test/check.c": programs.check(spec),
        "Makefile": project.makefile(spec, sources),
        "CMakeLists.txt": project.cmake(spec, sources),
        f"{spec.name}.pc": project.pkg_config(spec),
        "README.md": project.readme(spec),
    }
    for file, text in texts.items():
        (made / file).write_text(text)


def _c_program(spec: PackageSpec, compilation: Compilation, made: Path, scratch: Path) -> PackageSpec:
    """The program as C source in src/."""
    (made / "src").mkdir()
    program = CSource(compilation, spec.name)
    binary = scratch / "weights.bin"
    spec = replace(spec, model={**program.model, "weights_bytes": program.write_weights(compilation, binary)})
    files = {**program.files, f"{spec.name}.c": interface.interface(spec)}
    if spec.weights == "embed":
        files[f"{spec.name}_weights.c"] = weights_text(binary, f"{spec.prefix}_weights")
    else:
        _beside(spec, binary, made)
    if spec.threads > 1:
        files[f"{spec.name}_pool.c"] = spec.filled("pool.c", version=interface.ABI_VERSION)
    for file, text in files.items():
        (made / "src" / file).parent.mkdir(exist_ok=True)
        (made / "src" / file).write_text(text)
    external = [one.write(made / "src" / "external") for one in program.external]
    return replace(spec, external=external)


def _library(
    spec: PackageSpec,
    source: Source,
    options: Options,
    sizes: tuple[Shapes | None, Mapping[str, Sequence[int]] | None],
    cache: Cache | None,
    made: Path,
    scratch: Path,
) -> PackageSpec:
    """The program as a library in lib/."""
    apart = replace(options, memory=replace(options.memory, separate=bool(options.memory.pools)))
    artifact, owned = build_artifact(source, apart, sizes[0], cache, symbols=sizes[1], name=spec.name)
    try:
        lib.check_exportable(artifact, lib.machine_of(artifact.model))
        spec = replace(spec, model=artifact.model)
        (made / "lib").mkdir()
        _link(spec, artifact, made, scratch)
        if spec.weights == "beside":
            _beside(spec, artifact.path / WEIGHTS, made)
    finally:
        if owned:
            remove_scratch(artifact.path)
    return spec


def _link(spec: PackageSpec, artifact: Artifact, made: Path, scratch: Path) -> None:
    """lib/libNAME.a or .so: the interface, the compiled program, its weights, and the pool if it has threads."""
    from mlc.codegen.native import emit_object
    from mlc.codegen.weights_object import write_weights_object

    machine = lib.machine_of(artifact.model)
    text = f'target triple = "{artifact.model["target"]["triple"]}"\n'
    if spec.weights == "embed":
        text += _WEIGHTS_TEXT.format(prefix=spec.prefix)
    text += check_text(spec.prefix, machine, needed_features(artifact.model) or ())
    text += size_functions(artifact.model, spec.prefix) if spec.symbols else ""
    (scratch / f"{spec.name}.h").write_text(interface.header(spec))
    (scratch / f"{spec.name}.c").write_text(interface.interface(spec))
    own = scratch / "interface.o"
    command = [*lib.compiler(), "-std=c99", "-O2", "-Wall", "-Wextra", "-fPIC", f"-I{scratch}", "-c"]
    lib.run_tool([*command, str(scratch / f"{spec.name}.c"), "-o", str(own)], own)
    more = [emit_object(text, lib.plain_target(artifact.model)), own.read_bytes()]
    visible = _functions(spec)
    model, pool = lib.model_objects(artifact, spec.prefix, more, visible, scratch)
    files = [model, *([pool] if spec.threads > 1 else [])]
    if spec.weights == "embed":
        files.append(scratch / "weights.o")
        write_weights_object(artifact.path / WEIGHTS, f"{spec.prefix}_weights", machine, files[-1])
    library = made / spec.library
    if spec.lang == "so":
        lib.link_library(files, library, visible, scratch, spec.model.get("libraries", ()))
    else:
        lib.run_tool(["ar", "rcsD", str(library), *map(str, files)], library)


def _functions(spec: PackageSpec) -> list[str]:
    """The functions of the header."""
    sized = ("sizes_of", "shapes_of", "workspace_bytes") if spec.symbols else ()
    return [f"{spec.name}_{name}" for name in ("run", "strerror", "check_cpu", *sized)]


def _beside(spec: PackageSpec, weights: Path, made: Path) -> None:
    """The file of weights."""
    (made / "weights").mkdir()
    shutil.copyfile(weights, made / "weights" / f"{spec.name}.weights")


def _record(
    source: Source,
    options: Options,
    shapes: Shapes | None,
    symbols: Mapping[str, Sequence[int]] | None,
    cache: Cache | None,
    directory: Path,
) -> tuple[dict[str, int], list[LibraryFunction]]:
    """Write seeded inputs and the outputs of this machine's code; the values of the open sizes, and what it calls."""
    artifact, owned = build_artifact(source, replace(options, target="native"), shapes, cache, symbols=symbols)
    try:
        registered = library_functions(artifact.model.get("functions", ()))
        values = recorded_sizes(artifact)
        executable = compiled_executable(artifact, options.threads, "aot", LLVM())
        rng = np.random.default_rng(0)
        arrays: dict[str, Any] = {}
        for k, (name, shape, dtype) in enumerate(artifact.model["inputs"]):
            sizes = [evaluate(size, values) for size in shape]
            kind = dtype_of(dtype)
            most = 100 if kind.itemsize == 1 and kind.kind in "iu" else 2  # wider integers may be indices
            drawn = rng.integers(0, most, sizes) if kind.kind in "iub" else rng.standard_normal(sizes)
            arrays[name] = np.asarray(drawn).astype(kind)
            arrays[name].tofile(directory / f"input_{k}.bin")
        for k, array in enumerate(_padded(artifact.model, values, list(executable(arrays).values()))):
            np.ascontiguousarray(array).tofile(directory / f"output_{k}.bin")
        return values, registered
    finally:
        if owned:
            remove_scratch(artifact.path)


def _padded(model: Mapping[str, Any], values: Mapping[str, int], outputs: Sequence[Any]) -> list[Any]:
    """All outputs of the program: those of a data-dependent length with zeros behind it, and last their counts."""
    rows = model["outputs"]
    found = [*outputs, *(np.zeros(shape, dtype_of(dtype)) for _, shape, dtype in rows[len(outputs) :])]
    for k, axis, count in model.get("counted", ()):
        sizes = [evaluate(size, values) for size in rows[k][1]]
        found[count][...] = outputs[k].shape[axis]
        found[k] = np.zeros(sizes, outputs[k].dtype)
        found[k][tuple(map(slice, outputs[k].shape))] = outputs[k]
    return found


def recorded_sizes(artifact: Artifact) -> dict[str, int]:
    """
    A value for each open size: TYPICAL_SIZE, moved into the range and to the steps of the size.

    Where an input would have too many elements, sizes are smaller.
    """
    if not artifact.model.get("symbols"):
        return {}
    found: dict[str, int] = {}
    symbols = Sizes(artifact.model).symbols
    for symbol in symbols:
        value = min(max(TYPICAL_SIZE, symbol.low), symbol.high)
        value = -(-value // symbol.step) * symbol.step
        found[symbol.name] = value if value <= symbol.high else symbol.high // symbol.step * symbol.step
    shapes = [shape for _, shape, _ in artifact.model["inputs"]]

    def largest(values: Mapping[str, int]) -> int:
        return max((prod(evaluate(size, values) for size in shape) for shape in shapes), default=0)

    return bounded_sizes(found, {symbol.name: (symbol.low, symbol.step) for symbol in symbols}, largest)
