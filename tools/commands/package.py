"""mlc package: a directory with a compiled model, its C interface, an example and a check, which builds with make."""

import argparse
from pathlib import Path

from mlc.tools.cli import add_model_arguments, add_records_arguments, human_bytes, shapes_of, symbols_of
from mlc.tools.reporting import UsageError

EPILOG = """\
The directory holds include/NAME.h (a struct of inputs, one of outputs, NAME_run), the program, examples/main.c,
recorded inputs and outputs, and files for make, CMake and pkg-config:

    mlc package model.onnx -o model/ && make -C model check
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    from mlc.driver.export.package.spec import LANGUAGES, WEIGHTS

    add_model_arguments(parser)
    add_records_arguments(parser)
    parser.epilog, parser.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
    parser.add_argument("-o", dest="output", metavar="DIR", required=True, help="the directory to write, new or empty")
    parser.add_argument("--name", help="what the functions begin with (default: the name of the model's file)")
    parser.add_argument(
        "--lang", choices=LANGUAGES, default="a", help="a static library, a shared one, or C99 source (default: a)"
    )
    parser.add_argument(
        "--weights", choices=WEIGHTS, default="embed", help="weights in the program or in a file (default: embed)"
    )
    parser.add_argument(
        "--no-malloc", action="store_true", help="call no allocator: each call needs an arena (with --threads 1)"
    )


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    from mlc.driver.cache import Cache
    from mlc.driver.export.package import write_package
    from mlc.tools.commands.compile import options_of

    if not Path(args.model).is_file():
        raise UsageError(f"expected a model file, but got {args.model}")
    options = options_of(args)
    cache = None if args.no_cache or options.instruments else Cache.default()
    spec = write_package(
        args.model,
        Path(args.output),
        options,
        name=args.name or Path(args.model).stem,
        lang=args.lang,
        weights=args.weights,
        malloc=not args.no_malloc,
        shapes=shapes_of(args),
        symbols=symbols_of(args),
        cache=cache,
    )
    arena = "sized at run time" if spec.symbols else human_bytes(spec.own_bytes + options.threads * spec.scratch_bytes)
    print(f"wrote {args.output}: {spec.name}_run, weights {human_bytes(spec.model['weights_bytes'])}, arena {arena}")
    print(f"check it with: make -C {args.output} check")
    return 0
