"""
What mlc-opt says when a pass fails: whose pass it is, which of its rewrites, and how to see it again.

    m.mlir:3:8: error: your pass 'my-swap' changed @main (graph): output 0 at [1]: expected 2.0, but got -2.0; ...
    m.mlir:4:8: note: its rewrite 'swap' did, application 2 of 5, on 'graph.subtract' from "conv1"
    m.reproducer.npz: note: the inputs of the functions
    m.reproducer.mlir: note: replay it with: mlc-opt --run-reproducer m.reproducer.mlir --load=mine.py

A pass of the user's own that fails is the user's to mend, exit code 1; one of mlc's or of xDSL's is a bug, exit code 2.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, LocationAttr, NameLoc, StringAttr
from xdsl.ir import Attribute
from xdsl.passes import ModulePass
from xdsl.utils.lexer import Input

from mlc.dialects.syntax.input import start_of
from mlc.dialects.syntax.source import SourceParser, parse
from mlc.driver.pipeline.manager import BrokenByPass, PassFailed, make_context, run_passes
from mlc.driver.pipeline.registry import is_users_own
from mlc.driver.pipeline.text import pass_text
from mlc.support.diagnostics import Diagnostic, Place, Reporter, one_line, place_of_location, place_of_op
from mlc.tools.opt.printing import Printing
from mlc.tools.opt.reproducer import write_reproducer

if TYPE_CHECKING:
    import argparse

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp

    from mlc.validation.report import Replay


class Crash(Exception):
    """A pass, or the tool, has failed; what was to say is printed. `code` is the exit code."""

    def __init__(self, code: int = 2) -> None:
        super().__init__(code)
        self.code = code


def attach_weights(module: ModuleOp, path: str | None) -> None:
    """Attach the weights of a .safetensors file, if there is one, to a module; UserError for another file."""
    if path is not None:
        from mlc.dialects.graph.store import attach_store
        from mlc.support.weights import WeightStore

        attach_store(module, WeightStore.load(path))


def is_users(module_pass: ModulePass | None) -> bool:
    """Whether a pass is neither mlc's nor xDSL's."""
    if module_pass is None:
        return False
    return is_users_own(module_pass) or type(module_pass).__module__.partition(".")[0] not in ("mlc", "xdsl")


@dataclass
class Failure:
    """An exception that is no diagnostic of the input: where it came from, and what ran."""

    error: Exception
    source: Input[str]
    parser: SourceParser
    args: argparse.Namespace
    passes: Sequence[ModulePass]
    index: int
    """The number of the pass that failed; that of passes if it was none of them."""
    validator: Any = None
    """The instrument of --validate-each."""

    @property
    def guilty(self) -> ModulePass | None:
        """The pass that failed."""
        return self.passes[self.index] if self.index < len(self.passes) else None

    def report(self) -> int:
        """Print the diagnostic and its notes, write the reproducer; the exit code."""
        op = getattr(self.error, "op", None)
        place = place_of_op(op, start_of(self.source), self.parser.positions)
        reporter = Reporter(self.source)
        reporter.report(Diagnostic(place, self.message()))
        before = self.before()
        replay = None if before is None else self.replay(*before)
        if replay is not None:
            self.report_rewrite(replay, reporter, place)
        if not self.args.run_reproducer:
            self.write(before, replay)
        return 1 if is_users(self.guilty) else 2

    def message(self) -> str:
        """Whose bug it is, and what happened."""
        guilty, error = self.guilty, self.error
        if guilty is not None and is_users(guilty):
            return one_line(PassFailed(guilty, error).text)
        if isinstance(error, BrokenByPass):
            what = one_line(str(error))
        else:
            where = f"pass '{guilty.name}'" if guilty is not None else "printing the result"
            what = f"{where} raised {type(error).__name__}: {one_line(str(error))}"
        return f"a bug in mlc: {what}"

    def before(self) -> tuple[ModuleOp, Context] | None:
        """The module before the pass that failed, made anew from the source; None if that fails, too."""
        try:
            ctx = make_context(allow_unregistered=True)
            module, parser = parse(ctx, self.source, implicit_module=not self.args.no_implicit_module)
            attach_weights(module, self.args.weights)
            for op, place in parser.positions.items():
                op.location = _with_place(op.location, place)
            run_passes(module, ctx, self.passes[: self.index])
        except Exception:
            return None
        return module, ctx

    def replay(self, module: ModuleOp, ctx: Context) -> Replay | None:
        """The pass and the comparison, to run them again; None if no value was compared."""
        if self.validator is None or self.guilty is None or not hasattr(self.error, "difference"):
            return None
        from mlc.validation.report import Replay

        return Replay(module, self.guilty, ctx, _instrument(self.validator))

    def report_rewrite(self, replay: Replay, reporter: Reporter, place: Place) -> None:
        """Name the rewrite of the pass that changes the result, and its op, or else the ops that the pass changes."""
        from mlc.validation.report import find_rewrite

        found = find_rewrite(replay)
        changed = [] if found else replay.changed_ops()
        notes: list[tuple[Attribute, str]] = [(op.location, f"it changed '{op.name}'") for op in changed]
        if found is not None:
            one, total = found
            how = f"its rewrite '{one.rule}' did, application {one.number} of {total}"
            notes.append((one.location, f"{how}, on '{one.op_name}'"))
        for location, text in notes:
            node = f' from "{location.desc.data}"' if isinstance(location, NameLoc) else ""
            reporter.report(Diagnostic(place_of_location(location) or place, text + node, "note"))

    def write(self, before: tuple[ModuleOp, Context] | None, replay: Replay | None) -> None:
        """Write the reproducer, and the inputs that it needs; say how to replay it."""
        stem = "stdin" if self.source.name == "<stdin>" else Path(self.source.name).stem
        path = Path(self.args.mlir_pass_pipeline_crash_reproducer or f"{stem}.reproducer.mlir")
        alone = before is not None and (self.validator is None or (replay is not None and self.shows(replay)))
        text, passes = self.source.content, self.passes
        if alone and before is not None:
            text, passes = Printing().text(*before), self.passes[self.index : self.index + 1]
        try:
            inputs = self.write_inputs(path.with_suffix(".npz")) if alone and replay is not None else None
            weights = self.write_weights(path.with_suffix(".safetensors"), before[0] if alone and before else None)
            write_reproducer(path, text, self.configuration(passes, inputs, weights), self.error, self.args.load)
        except OSError as failure:
            print(f"{path}: note: cannot write the reproducer: {failure.strerror}", file=sys.stderr)
            return
        if inputs is not None:
            print(f"{inputs}: note: the inputs of the functions", file=sys.stderr)
        print(f"{path}: note: replay it with: {replay_command(str(path), self.args.load)}", file=sys.stderr)

    def shows(self, replay: Replay) -> bool:
        """Whether the text of the module before the pass is enough to see the failure again."""
        text = Printing().text(replay.module)
        try:
            module, _ = parse(replay.ctx, Input(text, "<reproducer>"))
        except Exception:  # text that does not read back; the source does
            return False
        return type(replay)(module, replay.module_pass, replay.ctx, replay.instrument).error()[0] is not None

    def write_inputs(self, path: Path) -> Path:
        """Write the inputs on which the functions were run."""
        from mlc.validation.report import write_inputs

        write_inputs(path, self.validator.recorded())
        return path

    def write_weights(self, path: Path, module: ModuleOp | None) -> Path | None:
        """Write the weights of a module before the pass that failed, or of the source; None if none were given."""
        if self.args.weights is None:
            return None
        from mlc.dialects.graph.store import store_of
        from mlc.support.weights import WeightStore

        store = None if module is None else store_of(module)
        (store or WeightStore.load(self.args.weights)).save(path)
        return path

    def configuration(self, passes: Sequence[ModulePass], inputs: Path | None, weights: Path | None) -> list[str]:
        """The arguments that replay the failure."""
        args = self.args
        flags = {
            "allow-unregistered-dialect": args.allow_unregistered_dialect,
            "no-implicit-module": args.no_implicit_module,
            "mlir-print-op-generic": args.print_op_generic,
            "validate-each": args.validate_each,
        }
        values = {"emit": (args.emit, "mlir"), "target": (args.target, "mlir")}
        return [
            f"--pass-pipeline=builtin.module({','.join(map(pass_text, passes))})",
            f"--verify-each={str(args.verify_each).lower()}",
            *(f"--{name}={value}" for name, (value, default) in values.items() if value != default),
            *([f"--emit-target={args.emit_target}"] if args.emit in ("asm", "obj") else []),
            *(f"--{name}" for name, is_set in flags.items() if is_set),
            *([f"--validate-inputs={inputs.name}"] if inputs is not None else []),
            *([f"--weights={weights.name}"] if weights is not None else []),
        ]


def _with_place(location: LocationAttr, place: Place) -> LocationAttr:
    """The location of an op of the text; one that only names a node also gets the place in the text."""
    if not isinstance(location, NameLoc) or place_of_location(location.location) is not None:
        return location
    return NameLoc(location.desc, FileLineColLoc(StringAttr(place.file), IntAttr(place.line), IntAttr(place.column)))


def _instrument(validator: Any) -> Callable[[], Any]:
    """Makes validating instruments that run functions on the inputs that this one recorded."""
    inputs = validator.recorded()
    return lambda: type(validator)(inputs=dict(inputs))


def replay_command(path: str, load: Sequence[str]) -> str:
    """The command that replays a reproducer; it names the files to load, which no reproducer can load itself."""
    return shlex.join(["mlc-opt", "--run-reproducer", path, *(f"--load={file}" for file in load)])
