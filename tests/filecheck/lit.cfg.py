"""lit settings for the FileCheck tests: `lit tests/filecheck`."""

import os
import sys
from pathlib import Path

import lit.formats

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

config.name = "mlc"
config.suffixes = [".mlir", ".py"]
# Inputs are what the commands of tests read besides the test itself.
config.excludes = ["lit.cfg.py", "warm_format.py", "Inputs"]
config.test_source_root = str(HERE)
config.test_exec_root = str(ROOT / "build" / "lit")

# mlc-opt and filecheck come from the Python that runs lit, active venv or not.
config.environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

config.substitutions += [
    (
        "MLC_ROUNDTRIP",
        "mlc-opt %s --print-op-generic --split-input-file | mlc-opt --split-input-file | filecheck %s",
    ),
    ("MLC_GENERIC", "mlc-opt %s --print-op-generic --split-input-file | filecheck %s --check-prefix=GENERIC"),
]

if "cold" in lit_config.params or not hasattr(os, "fork"):
    config.test_format = lit.formats.ShTest(execute_external=False)
else:
    from warm_format import WarmShTest, registered_modules

    # What almost every test loads; a module that is not here is loaded by each command that needs it.
    upstream = ("arith", "func", "linalg", "llvm", "math", "memref", "scf", "tensor", "vector")
    config.test_format = WarmShTest(
        preload=[*registered_modules(), *(f"xdsl.dialects.{d}" for d in upstream)]
        + [f"xdsl.transforms.{t}" for t in ("canonicalize", "common_subexpression_elimination")]
    )
