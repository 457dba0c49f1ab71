"""Checksums of a saved model's files: damage is found, in small files and in large ones."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import small_model

import mlc
from mlc.runtime import artifact
from mlc.support.errors import UserError


def flip(data: np.ndarray) -> None:
    data[len(data) // 3] ^= 16


def zero(data: np.ndarray) -> None:
    data[4096:8192] = 0


def swap_blocks(data: np.ndarray) -> None:
    data[:4096], data[4096:8192] = data[4096:8192].copy(), data[:4096].copy()


def swap_words(data: np.ndarray) -> None:
    data[64:72], data[128:136] = data[128:136].copy(), data[64:72].copy()


def end(data: np.ndarray) -> None:
    data[-1] += 1


@pytest.mark.parametrize("damage", [flip, zero, swap_blocks, swap_words, end])
@pytest.mark.parametrize("size", [3 * 8 * 512 * 512 + 13, 8192])
def test_sums_find_damage(tmp_path: Path, damage: Callable[[np.ndarray], None], size: int):
    path = tmp_path / "weights.bin"
    data = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    path.write_bytes(data.tobytes())
    good = artifact.sums_of(path)
    assert artifact.sums_of(path) == good
    damage(data)
    path.write_bytes(data.tobytes())
    assert artifact.sums_of(path) != good


@pytest.mark.parametrize("large", [0, 1 << 30])
def test_a_damaged_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: int):
    monkeypatch.setattr(artifact, "LARGE", large)
    given = small_model.inputs()
    path = small_model.write(tmp_path)
    exe = mlc.compile(path, threads=1, cache=False)
    exe.save(tmp_path / "saved")
    assert ("sums" if large == 0 else "sha256") in exe.artifact.model["files"]["weights.bin"]
    again = mlc.load_executable(tmp_path / "saved")
    assert all(np.array_equal(array, again(given)[name]) for name, array in exe(given).items())
    weights = tmp_path / "saved" / "weights.bin"
    data = bytearray(weights.read_bytes())
    data[100] ^= 1
    weights.write_bytes(data)
    with pytest.raises(UserError, match=r"weights\.bin: the checksum is wrong"):
        mlc.load_executable(tmp_path / "saved")
