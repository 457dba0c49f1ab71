"""mlc compile: a library, a saved executable, or the IR of a level."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mlc.driver.options import LEVELS, Options, current_context
from mlc.runtime.artifact import Artifact
from mlc.support.errors import UserError
from mlc.support.scratch import remove_scratch, scratch_directory
from mlc.tools.cli import (
    add_executor_argument,
    add_model_arguments,
    add_records_arguments,
    devices_of_arguments,
    executable_of,
    human_bytes,
    shapes_of,
    summary,
    symbols_of,
)
from mlc.tools.commands.memory import memory_of
from mlc.tools.reporting import UsageError

if TYPE_CHECKING:
    from mlc.runtime.vm.executable import VmExecutable

EMIT = (*LEVELS, "obj", "so", "dir")
_IR = ("graph", "te", "loop", "llvm")
_SHOW = {
    "--mlir-print-source-nodes": "print the source nodes of ops as comments",
    "--mlir-print-debuginfo": "print the locations of ops",
}
_SUFFIXES = {".so": "so", ".a": "a", ".o": "obj", ".h": "h", ".mlir": "graph", ".ll": "llvm-ir", ".s": "asm"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_model_arguments(parser)
    add_records_arguments(parser)
    add_executor_argument(parser, ("auto", "aot", "vm"))
    parser.add_argument(
        "-o", dest="output", metavar="PATH", help="output: a .so, .a, .o, .h, .mlir, .ll or .s file, or a directory"
    )
    parser.add_argument("--emit", choices=EMIT, help="kind of output (default: by the suffix of -o)")
    parser.add_argument(
        "--validate-each",
        action="store_true",
        help="interpret every function before and after each pass, and compare the values (slow)",
    )
    parser.add_argument(
        "--dump-schedules", metavar="DIR", help="write each kernel's schedule to a file in DIR, for --schedules"
    )
    parser.add_argument("--timing", action="store_true", help="print the time of each phase and pass")
    for flag, what in _SHOW.items():
        parser.add_argument(flag, action="store_true", help=f"with --emit {'|'.join(_IR)}: {what}")


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    what = args.emit or _kind(args.output)
    _check_shown(args, what)
    if what in LEVELS:
        return emit_text(args, what)
    if what is not None and args.output is None:
        raise UsageError(f"expected -o PATH to write --emit {what} to")
    if Path(args.model).is_dir():
        raise UsageError(f"expected a model file, but got the directory {args.model}")
    if args.dump_schedules is not None:
        files = dump_schedules(args)
        print(f"wrote {len(files)} schedule{'s' * (len(files) != 1)} to {args.dump_schedules}")
        if what is None:
            return 0
    if args.executor == "vm":
        from mlc.runtime.vm.executable import VmExecutable

        executable = executable_of(args)
        assert isinstance(executable, VmExecutable)
        return write_vm(executable, args, what)
    try:
        artifact, owned = compiled(args)
    except UserError as error:
        if (executable := _vm_instead(args, error)) is None:
            raise
        return write_vm(executable, args, what)
    try:
        files = [] if what is None else write(artifact, args.output, what)
    finally:
        if owned:
            remove_scratch(artifact.path)
    _print_made(artifact, args, files)
    return 0


def _check_shown(args: argparse.Namespace, what: str | None) -> None:
    """Raise UsageError for an option about printed IR, such as --mlir-print-debuginfo, if --emit names no IR."""
    for flag in _SHOW:
        if getattr(args, flag.strip("-").replace("-", "_")) and what not in _IR:
            raise UsageError(f"expected --emit {'|'.join(_IR)} with {flag}, but got {what or 'none'}")


def _print_made(artifact: Artifact, args: argparse.Namespace, files: list[Path]) -> None:
    """What was compiled, how it was validated, and the files that were written."""
    report = artifact.model["report"]
    symbols = ", ".join(name for name, *_ in artifact.model.get("symbols", ()))
    size = f"sized by {symbols}" if symbols else human_bytes(artifact.model["workspace_bytes"])
    memory = f"workspace {size}"
    print(f"{args.model}: {summary(report)}; {memory}, weights {human_bytes(artifact.model['weights_bytes'])}")
    if validated := report.get("validated"):
        from mlc.validation.validate_each import summary as validation_summary

        print(validation_summary(validated["comparisons"], validated["unsure"]))
    for file in files:
        print(f"wrote {file}")
    if args.timing:
        from mlc.support.display.timing import table

        print(table(report["timing"], report["seconds"]))


def _vm_instead(args: argparse.Namespace, error: UserError) -> VmExecutable | None:
    """The vm of a model that AOT refuses, where --executor leaves the choice."""
    if args.executor != "auto":
        return None
    from mlc.driver.cache import Cache
    from mlc.driver.vm.choice import VmSettings, instead_of_aot

    cache = None if args.no_cache else Cache.default()
    settings = VmSettings(options_of(args, validate=args.validate_each), cache)
    return instead_of_aot(error, args.model, "auto", settings, shapes_of(args), symbols_of(args))


def write_vm(executable: VmExecutable, args: argparse.Namespace, what: str | None) -> int:
    """Write a directory with the bytecode of a model; return the exit code."""
    if what not in (None, "dir"):
        raise UsageError(f"expected -o to be a directory for a model of the vm, but got '{args.output}'")
    later = "" if executable.machine.resolver is None else ", which compiles what the data decides when it is called"
    print(f"{args.model}: a program of the vm{later}")
    if what == "dir":
        executable.save(args.output)
        print(f"wrote {args.output}")
    return 0


def write(artifact: Artifact, output: str, what: str) -> list[Path]:
    """Write a directory, or a library with its header; the files."""
    if what == "dir":
        from mlc.runtime.artifact import copy_to

        copy_to(artifact, output)
        return [Path(output)]
    from mlc.driver.export.library import export

    return export(artifact, _path(output, what))


def compiled(args: argparse.Namespace) -> tuple[Artifact, bool]:
    """The artifact, and whether it is the caller's; one for another machine is not loaded here."""
    from mlc.driver.cache import Cache
    from mlc.driver.models.compile import build_artifact

    options = options_of(args, validate=args.validate_each)
    cache = None if args.no_cache or args.validate_each or options.instruments else Cache.default()
    return build_artifact(args.model, options, shapes_of(args), cache, symbols=symbols_of(args))


def options_of(args: argparse.Namespace, keep: frozenset[str] = frozenset(), validate: bool = False) -> Options:
    """The options that the arguments ask for."""
    from mlc.driver.models.schedules import Schedules
    from mlc.support.threads import thread_count

    schedules = Schedules.read(args.schedules)
    threads = thread_count(args.threads)
    return Options(
        args.target,
        args.opt_level,
        threads,
        keep,
        validate,
        schedules,
        args.precision,
        args.error_growth,
        context=current_context(),
        memory=memory_of(args),
        compilers=tuple(getattr(args, "compiler", ())),
        devices=devices_of_arguments(args),
        show_nodes=getattr(args, "mlir_print_source_nodes", False),
        show_locations=getattr(args, "mlir_print_debuginfo", False),
    )


def dump_schedules(args: argparse.Namespace) -> list[Path]:
    """Write the schedule of each kernel to a file of its own."""
    from mlc.driver.models.compilation import Compilation
    from mlc.driver.models.compile import load_model
    from mlc.driver.models.kernels import origins_by_kernel
    from mlc.driver.models.schedules import write_schedules

    options = options_of(args)
    compilation = Compilation(load_model(args.model, shapes_of(args), symbols_of(args), mapped=True), options)
    texts = compilation.schedule_texts()
    return write_schedules(args.dump_schedules, texts, origins_by_kernel(compilation.model), options.schedules)


def _kind(output: str | None) -> str | None:
    """What the name of the output asks for."""
    if output is None:
        return None
    suffix = Path(output).suffix
    if suffix not in _SUFFIXES and suffix:
        raise UsageError(f"expected -o to end in {', '.join(_SUFFIXES)} or to be a directory, but got '{output}'")
    return _SUFFIXES.get(suffix, "dir")


def _path(output: str, what: str) -> Path:
    """The output's path with the suffix that tells `export` what to write."""
    wanted = {"obj": ".o", "so": ".so", "a": ".a", "h": ".h"}[what]
    path = Path(output)
    if path.suffix != wanted:
        raise UsageError(f"expected -o to end in {wanted} for --emit {what}, but got '{output}'")
    return path


def emit_text(args: argparse.Namespace, level: str) -> int:
    """Write the text of one level."""
    from mlc.driver.models.compilation import Compilation
    from mlc.driver.models.compile import load_model
    from mlc.support.display.timing import table

    options = options_of(args, keep=frozenset({level}))
    compilation = Compilation(load_model(args.model, shapes_of(args), symbols_of(args), mapped=True), options)
    if level == "graph":
        compilation.optimize()
    else:
        with scratch_directory() as directory:
            remove_scratch(compilation.write(directory).path)
    text = compilation.texts[level]
    if args.output in (None, "-"):
        sys.stdout.write(text)
    else:
        try:
            Path(args.output).write_text(text)
        except OSError as error:
            raise UsageError(f"{args.output}: {error.strerror}") from error
    if args.timing:
        print(table(compilation.timing.rows(), compilation.timing.total()), file=sys.stderr)
    return 0
