"""Modules of folders that are no packages, such as benchmarks/ and tests/mutants/."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def script(folder: str, name: str) -> ModuleType:
    """Module `name` of a folder of the repository, imported as if the folder's scripts were run."""
    sys.path.insert(0, str(ROOT / folder))
    try:
        return import_module(name)
    finally:
        sys.path.remove(str(ROOT / folder))
