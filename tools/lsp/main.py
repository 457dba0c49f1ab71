"""
mlc-lsp: a language server for .mlir files; editors start it and talk to it over its standard input and output.

    mlc-lsp --load my_ops.py
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib.util import find_spec
from typing import NoReturn

from mlc.dialects.syntax.input import InputError
from mlc.support.errors import UserError
from mlc.support.version import __version__
from mlc.tools.opt.choice import add_load_argument


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "mlc-lsp",
        description="A language server for the .mlir files of mlc; docs/editors.md has recipes for editors.",
    )
    add_load_argument(parser)
    parser.add_argument("--stdio", action="store_true", help="talk over the standard input and output (the default)")
    parser.add_argument("--port", type=int, metavar="N", help="listen on port N of 127.0.0.1 instead")
    parser.add_argument("--version", action="version", version=f"mlc-lsp {__version__}")
    parser.error = _refuse
    return parser


def _refuse(message: str) -> NoReturn:
    """One line on stderr and exit code 1, as mlc-opt ends."""
    print(f"mlc-lsp: error: {message}", file=sys.stderr)
    sys.exit(1)


def expect_pygls() -> None:
    """UserError with the remedy unless the packages of the extra `lsp` are installed."""
    missing = [name for name in ("pygls", "lsprotocol") if find_spec(name) is None]
    if missing:
        raise UserError(f"expected {missing[0]} to be installed, which mlc-lsp needs; run: pip install 'mlc[lsp]'")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the server until the editor ends it; return the exit code."""
    args = _arguments().parse_args(argv)
    try:
        expect_pygls()
        from mlc.tools.opt.load import load_user_file

        with redirect_stdout(sys.stderr):  # the standard output belongs to the protocol
            for path in args.load:
                load_user_file(path)
    except InputError as error:
        print(error.diagnostic, file=sys.stderr)
        return 1
    except UserError as error:
        print(f"mlc-lsp: error: {error}", file=sys.stderr)
        return 1
    from mlc.tools.lsp.server import serve

    try:
        serve(args.port)
    except UserError as error:
        _refuse(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
