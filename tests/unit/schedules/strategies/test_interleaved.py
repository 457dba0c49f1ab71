"""Pictures of few channels: planes become pixels in registers, with the values of onnxruntime."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from small_graphs import Small, mismatches, onnxruntime_results

import mlc
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.compile import load_model
from mlc.driver.options import Options


def pixels(channels: int, height: int, width: int, dtype: str = "float32") -> Small:
    """Pixels of a picture that is held as planes, and of one that is scaled by channel on the way; planes of pixels."""
    small = Small()
    x = small.x(2, channels, height, width, dtype=dtype)
    small.out(small.op("Transpose", x, perm=[0, 2, 3, 1]))
    small.out(small.op("Transpose", small.x(2, height, width, channels, dtype=dtype), perm=[0, 3, 1, 2]))
    if dtype == "float32":
        scale = small.const(np.arange(1, channels + 1), np.float32)
        small.out(small.op("Mul", small.op("Relu", small.op("Transpose", x, perm=[0, 2, 3, 1])), scale))
    return small


@pytest.mark.parametrize(("target", "threads"), [("native", 1), ("native", 2), ("x86-64-v2", 1), ("x86-64-v3", 1)])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int64", "bool"])
def test_values(target: str, threads: int, dtype: str) -> None:
    for channels, height, width in [(2, 9, 33), (3, 17, 31), (4, 3, 64), (7, 1, 19)]:
        small = pixels(channels, height, width, dtype)
        exe = mlc.compile(small.proto(), target=target, threads=threads, cache=False)
        assert mismatches(small, exe, onnxruntime_results(small)) == []


@settings(max_examples=25)
@given(some.integers(2, 7), some.integers(1, 6), some.integers(1, 70), some.integers(2, 3))
def test_values_of_any_size(channels: int, height: int, width: int, block: int) -> None:
    """DepthToSpace interleaves columns instead of channels."""
    small = pixels(channels, height, width)
    small.out(small.op("DepthToSpace", small.x(1, block * block * channels, height, width), blocksize=block))
    exe = mlc.compile(small.proto(), threads=1, cache=False)
    assert mismatches(small, exe, onnxruntime_results(small)) == []


def test_tiles_have_a_row_for_each_channel(tmp_path) -> None:
    options = Options(target="x86-64-v3", keep=frozenset(["loop"]))
    compilation = Compilation(load_model(pixels(3, 32, 64, "int32").proto(), {}), options)
    compilation.write(tmp_path)
    assert "tile (d0 : 3, d1 : 8) : vector<3x8xi32>" in compilation.texts["loop"]
    assert "loop.for %i1_i2_o = 0 to 256" in compilation.texts["loop"]


def test_planes_of_a_piece_of_pixels_are_written_together(tmp_path) -> None:
    small = Small()
    small.out(small.op("Transpose", small.x(1, 32, 64, 3), perm=[0, 3, 1, 2]))
    options = Options(target="x86-64-v3", keep=frozenset(["loop"]))
    compilation = Compilation(load_model(small.proto(), {}), options)
    compilation.write(tmp_path)
    loops = [line.strip() for line in compilation.texts["loop"].splitlines() if "loop.for" in line]
    assert loops == ["loop.for %i2_i3_o = 0 to 64 {", "loop.for %i1 = 0 to 3 unrolled {"]


def test_planes_that_are_scaled_by_channel_stay_apart(tmp_path) -> None:
    """Each factor is read once for its plane."""
    small = Small()
    scale = small.const(np.arange(1, 4), np.float32)
    small.out(small.op("Transpose", small.op("Mul", small.x(1, 32, 64, 3), scale), perm=[0, 3, 1, 2]))
    options = Options(target="x86-64-v3", keep=frozenset(["loop"]))
    compilation = Compilation(load_model(small.proto(), {}), options)
    compilation.write(tmp_path)
    assert "unrolled" not in compilation.texts["loop"]
