"""The page of supported ops: each op of the graph dialect and of ONNX with the tests that run it compiled."""

import re
from pathlib import Path

from mlc.dialects.graph import OPS
from mlc.dialects.graph.ops.control import CONTROL
from mlc.frontends.onnx.table import converters

ROOT = Path(__file__).resolve().parent.parent
UNIT = ROOT / "tests" / "unit"
COMPILED = UNIT / "driver" / "test_supported_ops.py"
_ROW = re.compile(r"^\| (\w+) \| (\d+) \| (\d+) \| (\d+) \|", re.MULTILINE)
_NOTE = "Written by `docs/generate.py` from the ops' records, `docs/conformance.md` and the tests: change those."


def graph_rows() -> dict[str, tuple[int, list[str]]]:
    """Graph op -> (how many samples of it are compiled, the other test files that name it)."""
    rows: dict[str, tuple[int, list[str]]] = {}
    texts = _texts("**/test_*.py")
    for name, cls in sorted({**OPS, **{cls.name: cls for cls in CONTROL}}.items()):
        samples = len(cls.samples()) if name in OPS else 0
        rows[name] = samples, [] if samples else [file for file, text in texts.items() if f"{name} " in text]
    return rows


def onnx_rows() -> dict[str, tuple[int, list[str]]]:
    """ONNX op -> (backend tests passed, test files that name it); every op with a converter, or that passed a test."""
    passed = {m[1]: int(m[2]) for m in _ROW.finditer((ROOT / "docs" / "conformance.md").read_text())}
    texts = _texts("frontends/onnx/test_*.py") | _texts("tools/test_onnx*.py") | _texts("../models/test_*.py")
    rows: dict[str, tuple[int, list[str]]] = {}
    names = {(domain, name) for domain, name in converters()} | {("", n) for n, count in passed.items() if count}
    for domain, name in sorted(names, key=lambda key: (key[0], key[1].lower())):
        count = 0 if domain else passed.get(name, 0)
        files = [file for file, text in texts.items() if f'"{name}"' in text and domain in text]
        rows[f"{domain}.{name}" if domain else name] = count, files
    return rows


RANDOM = "random numbers: each run must give others, and no two libraries give the same"
STRINGS = "strings"
LEFT_OUT = {
    **dict.fromkeys(("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial"), RANDOM),
    **dict.fromkeys(("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch"), STRINGS),
    "Bernoulli": RANDOM,
    "ImageDecoder": "decodes files of pictures",
}
"""ONNX ops that mlc does not have, and why."""


def missing_ops() -> list[str]:
    """The ops of ai.onnx, of any opset, that mlc neither has nor finds a function body of."""
    import onnx

    known = converters()
    schemas = [s for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""]
    bodies = {s.name for s in schemas if s.has_function or s.has_context_dependent_function}
    random = {"Bernoulli"}  # its body has random numbers
    return sorted({s.name for s in schemas if ("", s.name) not in known and s.name not in bodies - random})


def page() -> str:
    """docs/operators.md."""
    lines = ["# Supported ops", "", _NOTE, "", "## The graph dialect", ""]
    lines += [f"Every sample of an op is compiled and compared with numpy by `{COMPILED.relative_to(ROOT)}`.", ""]
    lines += ["| op | samples compiled | other tests |", "|---|---|---|"]
    lines += [f"| `{name}` | {count or ''} | {_files(files)} |" for name, (count, files) in graph_rows().items()]
    lines += ["", "## ONNX", "", "Backend tests are those of [ONNX](conformance.md), compiled and run.", ""]
    lines += ["| op | backend tests passed | unit tests |", "|---|---|---|"]
    lines += [f"| {name} | {count or ''} | {_files(files)} |" for name, (count, files) in onnx_rows().items()]
    lines += ["", "## ONNX ops that are not supported", "", "Of ai.onnx, all opsets:", "", "| op | why |", "|---|---|"]
    lines += [f"| {name} | {LEFT_OUT[name]} |" for name in missing_ops()]
    lines += ["", *_LIMITS]
    return "\n".join(lines) + "\n"


_LIMITS = """Of other domains: com.microsoft as above, functions that a model brings along, and ops that a program
teaches the import ([operators of your own](own-operators.md)); not ai.onnx.ml, ai.onnx.preview and
ai.onnx.preview.training.

Nodes may stand in any order. An initializer that is an input as well is a constant, or an input of the shape that
`shapes=` gives for it.

Supported only in part, and refused by name where they are not:

- sequences and optionals: of lengths that the import knows ([control flow](control-flow.md))
- sizes that the data says: with a bound, one of a value ([control flow](control-flow.md))
- Dropout in training: with a seed
- DFT, STFT, MelWeightMatrix: of lengths that the import knows
- integers of 4 and 2 bits: as constants and between QuantizeLinear and DequantizeLinear, not as inputs and outputs of
  the model ([quantised models](quantization.md)); floats of 8 bits and less: not yet""".split("\n")


def untested() -> list[str]:
    """Ops that are called supported and that no test names."""
    rows = {**graph_rows(), **onnx_rows()}
    return [name for name, (count, files) in rows.items() if not count and not files]


def _files(files: list[str]) -> str:
    return ", ".join(f"`{file}`" for file in files[:3])


def _texts(pattern: str) -> dict[str, str]:
    return {_shown(path): path.read_text() for path in sorted(UNIT.glob(pattern))}


def _shown(path: Path) -> str:
    """A test file's path below tests/unit, or its name where it is elsewhere."""
    return str(path.relative_to(UNIT)) if path.is_relative_to(UNIT) and ".." not in path.parts else path.name
