"""
mlc-opt: read IR, run passes over it, print it - with the manners of mlir-opt.

    mlc-opt file.mlir --pass-pipeline='builtin.module(graph-fuse-ops,canonicalize)'

Exit codes: 0 done; 1 the input or the command line is wrong (one diagnostic on stderr); 2 a bug in mlc
(a reproducer is written).
"""

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.targets import get_all_targets
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException
from xdsl.utils.lexer import Input
from xdsl.xdsl_opt_main import VersionAction, xDSLOptMain

from mlc.dialects.syntax.input import InputError, read_source, reject, split_source, start_of
from mlc.dialects.syntax.source import SourceParser, parse
from mlc.driver.options import settings_of
from mlc.driver.pipeline.manager import make_context, parse_pipeline, run_passes
from mlc.driver.pipeline.pipelines import MAX_LEVEL
from mlc.driver.pipeline.registry import import_target
from mlc.driver.pipeline.text import PipelineError
from mlc.passes.verifier import verify
from mlc.support.collector import skip_last_collection, uncollected
from mlc.support.diagnostics import Diagnostic, Place, Reporter, one_line, place_of_op
from mlc.support.errors import UserError, WarningSink, diagnostic_text, warnings_to
from mlc.tools.opt.arguments import add_arguments, normalize
from mlc.tools.opt.choice import chooses, context_of, printing_instrument
from mlc.tools.opt.diagnose import error_text
from mlc.tools.opt.emit import emit
from mlc.tools.opt.failure import Crash, Failure, attach_weights, replay_command
from mlc.tools.opt.instruments import PassTimer
from mlc.tools.opt.limits import apply_limits
from mlc.tools.opt.printing import Printing

Output = str | bytes


@dataclass
class Progress:
    """An instrument that remembers which pass runs."""

    index: int = -1
    current: ModulePass | None = None

    def before(self, module_pass: ModulePass, module: ModuleOp) -> None:
        self.index += 1
        self.current = module_pass


class MlcOpt(xDSLOptMain):
    """One run of mlc-opt."""

    def __init__(self, args: Sequence[str]) -> None:
        self.passes: list[ModulePass] = []
        super().__init__("Read IR, run passes over it, print it.", args)

    # Hooks of xDSLOptMain; passes are looked up by name when the pipeline is parsed.

    def register_all_dialects(self) -> None:
        pass

    def register_all_frontends(self) -> None:
        pass

    def register_all_passes(self) -> None:
        pass

    def register_all_targets(self) -> None:
        self.available_targets.update(get_all_targets())

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        add_arguments(arg_parser, VersionAction)

    def setup_pipeline(self) -> None:
        args = self.args
        apply_limits(args)
        if args.load:
            from mlc.tools.opt.load import load_user_file

            for path in args.load:
                load_user_file(path)
        self.ctx = make_context(allow_unregistered=args.allow_unregistered_dialect)
        if args.passes is not None:
            try:
                self.passes = parse_pipeline(args.passes, settings_of(args.set))
            except PipelineError as error:
                raise reject(Place("<pass-pipeline>", 1, error.column), str(error)) from error
        if chooses(args):
            context = context_of(args, MAX_LEVEL, runs=[one.name for one in self.passes])
            self.passes = context.configure(self.passes, settings=settings_of(args.set))
        self.printing = Printing(
            args.print_op_generic,
            args.print_no_properties,
            args.print_debuginfo,
            args.syntax_highlight,
            args.mlir_elide_elementsattrs_if_larger,
            args.mlir_print_source_nodes,
        )
        self.validator = None
        self.timing = PassTimer() if args.mlir_timing else None
        self.progress = Progress()
        self.instruments = self.make_instruments()

    def make_instruments(self) -> list[object]:
        """The instruments that the command line asks for."""
        args = self.args
        instruments: list[object] = [self.progress]
        if (printing := printing_instrument(args, self.printing.text)) is not None:
            instruments.append(printing)
        if args.validate_each:
            self.validator = validating_instrument(args.validate_inputs)
            instruments.insert(1, self.validator)  # the IR is printed before its values are compared
        if self.timing is not None:
            instruments.append(self.timing)
        return instruments

    def run_tool(self, source: Input[str] | None = None) -> int:
        """Do what the command line says; return the exit code."""
        if (text := self.show()) is not None:
            print(text)
            return 0
        source = source or read_source(self.args.input_file)
        pieces = split_source(source) if self.args.split_input_file else iter([source])
        good = True
        results: list[Output] = []
        for number, piece in enumerate(pieces):
            results += ["// -----\n"] if number and self.args.emit != "obj" else []
            self.stream(results)
            result, accepted = self.process(piece)
            good &= accepted
            results += [] if result is None else [result]
            self.stream(results)
        if good and self.args.output_file is not None:
            self.write(results)
        if self.timing is not None:
            print(self.timing.report(), file=sys.stderr)
        return 0 if good else 1

    def show(self) -> str | None:
        """The text that a --show option asks for; None without one."""
        args = self.args
        if not (args.show_dialects or args.show_passes is not None or args.show_pipeline is not None):
            return None
        from mlc.tools.opt import show

        if args.show_dialects:
            return show.show_dialects()
        if args.show_passes is not None:
            return show.show_passes(args.show_passes)
        return show.show_pipeline(args.show_pipeline)

    def process(self, source: Input[str]) -> tuple[Output | None, bool]:
        """Read, transform and print one module; return the output, and whether there was no error."""
        checking = self.args.verify_diagnostics
        reporter = Reporter(source, keep=checking)
        self.progress.index, self.progress.current = -1, None
        result = None
        with warnings_to(self.warning_sink(reporter, source)):
            try:
                result = self.compile(source)
            except InputError as error:
                reporter.report(error.diagnostic)
        if not checking:
            return result, result is not None
        from mlc.tools.opt.expected import compare

        printer = Reporter(source)
        wrong = compare(source, reporter.kept)
        for diagnostic in wrong:
            printer.report(diagnostic)
        return result, not wrong

    def compile(self, source: Input[str]) -> Output:
        """Read, transform and print one module; InputError if the input does not allow it."""
        args = self.args
        with self.phase("Parser"), uncollected():
            module, parser = parse(self.ctx, source, implicit_module=not args.no_implicit_module)
            attach_weights(module, args.weights)
            gc.freeze()  # a collection walks over all that is not frozen
        try:
            if not args.disable_verify:
                with self.phase("Verifier"), uncollected():
                    verify(module)
            check = args.verify_each and not args.disable_verify
            with self.phase("Passes"):
                run_passes(module, self.ctx, self.passes, verify=check, instruments=self.instruments)
            self.progress.current = None
            with self.phase("Output"), uncollected():
                return self.output(module)
        except (UserError, DiagnosticException) as error:
            raise InputError(self.diagnose(error, source, parser)) from error
        except Exception as error:
            index = self.progress.index if self.progress.current is not None else len(self.passes)
            failure = Failure(error, source, parser, args, self.passes, index, self.validator)
            raise Crash(failure.report()) from error
        finally:
            gc.unfreeze()

    def diagnose(self, error: Exception, source: Input[str], parser: SourceParser) -> Diagnostic:
        """The diagnostic for an error about an operation, or about the module."""
        current = self.progress.current
        message = error_text(error, None if current is None else current.name)
        op = getattr(error, "op", None)
        return Diagnostic(place_of_op(op, start_of(source), parser.positions), message)

    def output(self, module: ModuleOp) -> Output:
        """The module in the form that is asked for."""
        if self.args.emit != "mlir":
            return emit(module, self.args.emit, self.args.emit_target)
        if self.args.target != "mlir":
            return self.in_format_of_xdsl(module)
        return self.printing.text(module, self.ctx) + "\n"

    def in_format_of_xdsl(self, module: ModuleOp) -> str:
        """The module in the output format of xDSL's that -t names; UserError where xDSL cannot print it so."""
        try:
            text = self.output_resulting_program(module)
        except Exception as error:  # each of its printers raises errors of its own for ops that it lacks
            what = str(error).partition("\n")[0] or type(error).__name__
            raise UserError(f"xDSL cannot print this as '{self.args.target}': {what}; see --emit") from error
        if not text:
            raise UserError(f"xDSL prints nothing of this as '{self.args.target}'; see --emit")
        return text

    def stream(self, results: list[Output]) -> None:
        """Write the results so far to the standard output; a file is written when all pieces are good."""
        if self.args.output_file is None:
            self.write(results)
            results.clear()

    def write(self, results: list[Output]) -> None:
        """Write to the output file or the standard output."""
        path = self.args.output_file
        if path in (None, "-"):
            for result in results:
                if isinstance(result, bytes):
                    sys.stdout.buffer.write(result)
                else:
                    sys.stdout.write(result)
            sys.stdout.flush()
            return
        data = b"".join(r.encode() if isinstance(r, str) else r for r in results)
        try:
            Path(path).write_bytes(data)
        except OSError as error:
            raise reject(Place(path), f"cannot write the file: {error.strerror}") from error

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Time a part of the run, if timing is asked for."""
        return nullcontext() if self.timing is None else self.timing.phase(name)

    @staticmethod
    def warning_sink(reporter: Reporter, source: Input[str]) -> WarningSink:
        """What reports the warnings of passes with their places."""
        default = start_of(source)

        def sink(op: Operation | None, message: str) -> None:
            reporter.report(Diagnostic(place_of_op(op, default, {}), diagnostic_text(op, message), "warning"))

        return sink


def validating_instrument(inputs: str | None) -> Any:
    """The instrument of --validate-each, which runs functions on the inputs of a file, if one is given."""
    make = import_target("--validate-each", "mlc.validation.validate_each:ValidateInstrument")
    if inputs is None:
        return make()
    from mlc.validation.report import read_inputs

    return make(inputs=read_inputs(Path(inputs)))


def replaying(source: Input[str], arguments: Sequence[str], loaded: Sequence[str]) -> MlcOpt:
    """The run that a reproducer describes; a note says which files it was made with, if they are not loaded."""
    from mlc.tools.opt.reproducer import read_configuration, read_loads

    missing = [path for path in read_loads(source) if path not in loaded]
    try:
        return MlcOpt([*read_configuration(source), *arguments])
    except Exception:
        if missing:
            command = replay_command(source.name, missing)
            print(f"{source.name}: note: it was made with files that it cannot load itself: {command}", file=sys.stderr)
        raise


def run(argv: Sequence[str]) -> int:
    """Run mlc-opt with these arguments; return the exit code."""
    arguments = normalize(argv)
    recursion = sys.getrecursionlimit()
    try:
        driver, source = MlcOpt(arguments), None
        if driver.args.run_reproducer:
            source = read_source(driver.args.input_file)
            driver = replaying(source, arguments, driver.args.load)
        return driver.run_tool(source)
    except InputError as error:
        Reporter().report(error.diagnostic)
    except (UserError, ArgSpecParseError) as error:
        print(f"mlc-opt: error: {one_line(str(error))}", file=sys.stderr)
    except Crash as crash:
        return crash.code
    except BrokenPipeError:
        # The reader of our output has gone; nothing that Python flushes at exit may complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return 130
    finally:
        sys.setrecursionlimit(recursion)
    return 1


def main() -> None:
    """The command `mlc-opt`."""
    code = run(sys.argv[1:])
    skip_last_collection()
    if code:
        sys.exit(code)


if __name__ == "__main__":
    main()
