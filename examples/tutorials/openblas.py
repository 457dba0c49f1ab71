"""OpenBLAS, as numpy's wheels bring it: a shared library beside the package, whose functions take sizes of 64 bits."""

import ctypes
from pathlib import Path

import numpy as np

FUNCTIONS = ("scipy_cblas_sgemm64_", "cblas_sgemm64_")
"""The names of sgemm, of numpy 2 and of numpy 1.2x."""
FOLDERS = ("../numpy.libs", ".dylibs")
"""Where wheels keep their libraries, from the folder of numpy: on Linux, on macOS."""
MISSING = "numpy has no OpenBLAS of its own here: its wheels from PyPI have one, in numpy.libs"


def find() -> tuple[str, str] | None:
    """The path of the library and the name of its sgemm; None where numpy brings none."""
    for folder in FOLDERS:
        for path in sorted((Path(np.__file__).parent / folder).resolve().glob("lib*openblas64_*")):
            library = ctypes.CDLL(str(path))
            for name in FUNCTIONS:
                if hasattr(library, name):
                    return str(path), name
    return None
