"""mlc new: a project of one's own that adds to mlc, with tests that pass."""

import argparse
from pathlib import Path

from mlc.tools.new.project import KINDS, LEVELS, write_project


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    kinds = "\n".join(f"  {kind:9} {what}" for kind, what in KINDS.items())
    parser.description = f"{parser.description}\n\n{kinds}"
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("kind", choices=KINDS, metavar="KIND", help=f"one of {', '.join(KINDS)}")
    parser.add_argument("name", metavar="NAME", help="name of the project, such as merge-relu-clip")
    parser.add_argument("-o", dest="output", metavar="DIR", help="folder to write (default: NAME); it must not exist")
    parser.add_argument(
        "--level",
        choices=LEVELS,
        help="the IR that a pass rewrites (default: what NAME begins with, or graph)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    from mlc.tools.reporting import UsageError

    if args.level is not None and args.kind != "pass":
        raise UsageError(f"expected --level with 'pass' only, but got it with '{args.kind}'")
    folder = Path(args.output or args.name)
    files = write_project(args.kind, args.name, args.level, folder)
    for file in files:
        print(f"wrote {file}")
    print(f"next: cd {folder} && pip install -e '.[test]' && make test")
    return 0
