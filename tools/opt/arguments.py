"""The command line of mlc-opt: mlir-opt's names, and those of xdsl-opt that mean the same."""

import argparse
import difflib
import sys
from collections.abc import Sequence
from typing import NoReturn

from mlc.tools.opt.choice import add_choice_arguments, add_load_argument, add_printing_arguments
from mlc.tools.opt.emit import FORMATS
from mlc.tools.opt.limits import add_limits, natural

# Flags that may stand without a value -> the value that they then have.
_BARE = {
    "--verify-each": "true",
    "--show-passes": "",
    "--mlir-timing": "true",
}

# Flags without a value -> their help.
_SWITCHES: dict[tuple[str, ...], str] = {
    ("--split-input-file",): "process the parts between lines `// -----` one by one",
    ("--verify-diagnostics",): "check the diagnostics against `// expected-error {{...}}`",
    ("--disable-verify",): "do not verify the IR, not even the input",
    ("--allow-unregistered-dialect",): "accept operations of unknown dialects",
    ("--no-implicit-module",): "expect the input to be one builtin.module, and add none around it",
    ("--print-op-generic", "--mlir-print-op-generic"): "print the generic form",
    ("--print-no-properties",): "print properties as attributes",
    ("--print-debuginfo", "--mlir-print-debuginfo"): "print locations",
    ("--mlir-print-source-nodes",): "print the source nodes of ops as comments",
    ("--syntax-highlight",): "print in colour",
    ("--show-dialects",): "list the dialects",
    ("--run-reproducer",): "replay the reproducer of a crash, as its header says",
    ("--validate-each",): "interpret the module before and after each pass, and compare the values (slow)",
}


def boolean(text: str) -> bool:
    """A flag's value, as mlir-opt writes it."""
    values = {"true": True, "1": True, "on": True, "false": False, "0": False, "off": False}
    if text.lower() not in values:
        raise argparse.ArgumentTypeError(f"expected true or false, but got '{text}'")
    return values[text.lower()]


def add_arguments(parser: argparse.ArgumentParser, version_action: type[argparse.Action]) -> None:
    """Add every option of mlc-opt."""
    parser.prog = "mlc-opt"
    parser.allow_abbrev = False
    parser.add_argument(
        "input_file", nargs="?", metavar="FILE", help="a file of IR text; - or nothing is the standard input"
    )
    add = parser.add_argument
    add("-o", "--output-file", metavar="FILE", help="write the result to FILE")
    add(
        "-p",
        "--pass-pipeline",
        "--passes",
        dest="passes",
        metavar="PIPELINE",
        help="the passes to run: a,b{option=value},O3",
    )
    add(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the compiler's pipelines, as target=znver5; may be repeated",
    )
    add("-t", "--target", default="mlir", help="an output format of xDSL (default: mlir)")
    add("--emit", choices=FORMATS, default="mlir", help="format of the result (default: mlir)")
    add("--emit-target", default="native", metavar="TARGET", help="the CPU for --emit=asm|obj (default: native)")
    add_load_argument(parser)
    add_choice_arguments(parser)
    add_printing_arguments(parser)
    _add_watching(parser)
    add("-v", "--version", action=version_action, version_format="mlc-opt on xDSL {xdsl_version}")
    for flags, help_text in _SWITCHES.items():
        add(*flags, action="store_true", help=help_text)
    add_limits(parser)
    parser.error = lambda message: _refuse(parser, message)


def _add_watching(parser: argparse.ArgumentParser) -> None:
    """Add the options that verify, time and list passes."""
    add = parser.add_argument
    add(
        "--verify-each",
        type=boolean,
        default=True,
        metavar="BOOL",
        help="verify the module after each pass (default: true)",
    )
    add("--mlir-timing", type=boolean, default=False, metavar="BOOL", help="print the time of each phase and pass")
    add(
        "--mlir-elide-elementsattrs-if-larger",
        type=natural,
        metavar="N",
        help="leave out constants of more than N elements",
    )
    add(
        "--mlir-pass-pipeline-crash-reproducer",
        metavar="FILE",
        help="file for the reproducer of a crash (default: INPUT.reproducer.mlir)",
    )
    add(
        "--validate-inputs",
        metavar="FILE.npz",
        help="inputs for --validate-each: arrays '@function/0', '@function/1', ..",
    )
    add("--weights", metavar="FILE.safetensors", help="the weights that the module's graph.param ops read")
    add("--show-passes", metavar="NAME", help="list the passes; with a NAME describe one")
    add("--show-pipeline", metavar="NAME", help="print the passes of a pipeline of the compiler, such as O3")


def _refuse(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    """One line on stderr, with the nearest option, and exit code 1 (2 would mean a bug)."""
    prefix = "unrecognized arguments: "
    if message.startswith(prefix):
        word = message.removeprefix(prefix).split()[0]
        known = [option for action in parser._actions for option in action.option_strings]
        near = difflib.get_close_matches(word.partition("=")[0], known, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        message = f"unknown option '{word}'{hint}" if word.startswith("-") else f"unexpected argument '{word}'"
    print(f"mlc-opt: error: {message}", file=sys.stderr)
    sys.exit(1)


def normalize(argv: Sequence[str]) -> list[str]:
    """Accept mlir-opt's `-long-option` and flags without their value."""
    result: list[str] = []
    for word in argv:
        if len(word.partition("=")[0]) > 2 and word[0] == "-" and word[1].isalpha() and "-" in word[2:]:
            word = f"-{word}"
        result.append(f"{word}={_BARE[word]}" if word in _BARE else word)
    return result
