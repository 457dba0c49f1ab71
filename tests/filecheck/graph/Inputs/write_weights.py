"""`write_weights.py FILE.safetensors NAME=TYPE:SIZESxSIZES ..`: a file of random weights for a test of mlc-opt."""

import sys

import numpy as np
from safetensors.numpy import save_file


def main(path: str, *weights: str) -> None:
    """Write one array for each weight, integers between -100 and 100."""
    rng, arrays = np.random.default_rng(0), {}
    for weight in weights:
        name, _, description = weight.partition("=")
        dtype, _, sizes = description.partition(":")
        arrays[name] = rng.integers(-100, 101, [int(n) for n in sizes.split("x")]).astype(dtype)
    save_file(arrays, path)


if __name__ == "__main__":
    main(*sys.argv[1:])
