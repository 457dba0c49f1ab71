"""mlc run: a model on arrays from .npy files."""

import argparse
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from mlc.tools.cli import (
    COMPILED,
    add_executor_argument,
    add_model_arguments,
    add_records_arguments,
    executable_of,
    shapes_of,
)
from mlc.tools.reporting import UsageError

if TYPE_CHECKING:
    import numpy as np

    from mlc.runtime.executable import Executable

    Array = np.ndarray[Any, np.dtype[Any]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_model_arguments(parser, COMPILED)
    add_records_arguments(parser)
    add_executor_argument(parser)
    parser.add_argument(
        "--input", action="append", default=[], metavar="NAME=FILE.npy", help="array of an input; may be repeated"
    )
    parser.add_argument(
        "--random", action="store_true", help="fill inputs that are not given with random values (seed 0)"
    )
    add_at_argument(parser)
    parser.add_argument("--output-dir", metavar="DIR", help="write each output as DIR/NAME.npy")
    parser.add_argument("--compare-f32", action="store_true", help="compare each output with that of --precision f32")
    parser.add_argument("--profile", action="store_true", help="print the time of each kernel")


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    given = _files(args.input)
    if args.output_dir:
        Path(args.output_dir).mkdir(parents=True, exist_ok=True)  # before the work: what cannot be made is an error
    executable = executable_of(args)
    inputs = {name: read_array(path) for name, path in given.items()}
    if args.random:
        inputs = {**random_inputs(executable, shapes_of(args, "at"), inputs), **inputs}
    try:
        outputs = executable(inputs)
    except ValueError as error:
        raise UsageError(
            f"{error}; give it with --input NAME=FILE.npy" if "missing" in str(error) else str(error)
        ) from error
    exact = _in_f32(args, inputs) if args.compare_f32 else {}
    for name, array in _tensors(outputs):
        shape = "x".join(map(str, array.shape)) or "scalar"
        error = f"; {_error(array, exact[name])}" if name in exact else ""
        print(f"{name}: {shape} {array.dtype}{_range(array)}{error}")
    if args.output_dir:
        _write(Path(args.output_dir), dict(_tensors(outputs)))
    if args.profile:
        print(executable.profile(inputs))
    return 0


def _tensors(outputs: Mapping[str, Any]) -> list[tuple[str, "Array"]]:
    """The outputs, tensors of sequences as NAME.0, NAME.1, .., without absent optionals."""
    found: list[tuple[str, Any]] = []
    for name, value in outputs.items():
        if isinstance(value, list):
            found += [(f"{name}.{k}", one) for k, one in enumerate(cast("list[Any]", value))]
        elif value is not None:
            found.append((name, value))
    return found


def _in_f32(args: argparse.Namespace, inputs: dict[str, Any]) -> dict[str, Any]:
    """The outputs of the same model in f32."""
    if args.precision == "f32" or Path(args.model).is_dir():
        raise UsageError("expected a model file and --precision bf16 or f16 beside --compare-f32")
    return executable_of(argparse.Namespace(**vars(args) | {"precision": "f32"}))(inputs)


def _error(found: "Array", exact: "Array") -> str:
    """The greatest difference, and the root mean square relative to the result's."""
    import numpy as np

    difference = found.astype(np.float64) - exact
    scale = float(np.sqrt(np.mean(np.square(exact, dtype=np.float64))))
    rms = float(np.sqrt(np.mean(np.square(difference)))) / scale if scale else 0.0
    return f"off f32 by at most {np.abs(difference).max():.3g}, relative {rms:.2g}"


def add_at_argument(parser: argparse.ArgumentParser) -> None:
    """The sizes of random inputs, where the model leaves them open."""
    parser.add_argument(
        "--at",
        action="append",
        default=[],
        metavar="NAME=1x3x48x320",
        help="shape of a random input of a model with open sizes; may be repeated",
    )


def random_inputs(
    executable: "Executable", shapes: Mapping[str, Sequence[Any]] | None = None, given: Collection[str] = ()
) -> dict[str, Any]:
    """
    Seeded inputs: normal floats, small non-negative integers; `shapes` where the model leaves sizes open.

    An input that is a sequence gets RANDOM_TENSORS tensors of one shape.
    """
    import numpy as np

    from mlc.runtime.vm.executable import LIST
    from mlc.support.dtypes import dtype_of

    rng = np.random.default_rng(0)
    inputs: dict[str, Any] = {}
    for spec in executable.inputs:
        if spec.name in given:
            continue
        shape = (shapes or {}).get(spec.name, spec.shape)
        is_sequence = spec.dtype.startswith(LIST)
        if shape is None:
            of = f"{'the tensors of ' if is_sequence else ''}input '{spec.name}'"
            raise UsageError(f"expected the shape of {of} for random values; give it with --at {spec.name}=1,2,3")
        if not all(isinstance(size, int) for size in shape):
            known, like = ", ".join(map(str, shape)), ",".join(str(n) if isinstance(n, int) else "1" for n in shape)
            raise UsageError(
                f"expected the sizes of input '{spec.name}' ({known}) to be known for random values; give them with "
                f"--at {spec.name}={like}"
            )
        dtype = dtype_of(spec.dtype.removeprefix(LIST))
        is_integer = dtype.kind in "iub"
        drawn = [
            np.asarray(rng.integers(0, 2, shape) if is_integer else rng.standard_normal(shape)).astype(dtype)
            for _ in range(RANDOM_TENSORS if is_sequence else 1)
        ]
        inputs[spec.name] = drawn if is_sequence else drawn[0]
    return inputs


RANDOM_TENSORS = 2
"""The tensors of a random input that is a sequence."""


def read_inputs(texts: list[str]) -> dict[str, Any]:
    """Input name -> array, for texts NAME=FILE.npy; UsageError for a wrong text or file."""
    return {name: read_array(path) for name, path in _files(texts).items()}


def _files(texts: list[str]) -> dict[str, Path]:
    """Input name -> file."""
    files: dict[str, Path] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals or not name or not path:
            raise UsageError(f"expected --input NAME=FILE.npy, but got '{text}'")
        files[name] = Path(path)
    return files


def read_array(path: Path) -> Any:
    """An array from a .npy file, which holds no objects."""
    import numpy as np

    try:
        with path.open("rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except (ValueError, EOFError) as error:
        reason = str(error).rstrip(".")
        raise UsageError(f"{path}: expected an array in numpy's .npy format, but {reason}") from error


def _range(array: "Array") -> str:
    """The least and the greatest element."""
    return f", {array.min():.6g} to {array.max():.6g}" if array.size and array.dtype.kind in "fiu" else ""


def _write(directory: Path, outputs: dict[str, Any]) -> None:
    import numpy as np

    for name, array in outputs.items():
        np.save(directory / f"{name.replace('/', '_')}.npy", array)
