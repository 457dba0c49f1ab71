"""mlc.driver.models.file_key: digests of files, by several threads and as noted."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from mlc.driver.cache import Cache
from mlc.driver.models import file_key

MARKER = b"\x0a\x08location"


def content(path: Path) -> file_key.Content:
    with path.open("rb") as file:
        return file_key.read_content(file, path.stat().st_size)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    monkeypatch.setenv("MLC_CACHE_DIR", str(tmp_path / "cache"))
    found = Cache.default()
    assert found is not None
    return found


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that counts as large, changed long ago, in a folder of its own."""
    monkeypatch.setattr(file_key, "NOTED_BYTES", 1)
    monkeypatch.setattr(file_key, "_SETTLED_SECONDS", -1.0)
    (tmp_path / "models").mkdir()
    path = tmp_path / "models" / "model.onnx"
    path.write_bytes(b"some model" + MARKER)
    return path


@pytest.mark.parametrize("share", [4, 10, 16, 1000])
@pytest.mark.parametrize("piece", [1, 3, 8, 64])
def test_external_data_is_found_wherever_pieces_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: int, piece: int
):
    monkeypatch.setattr(file_key, "_SHARE", share)
    monkeypatch.setattr(file_key, "_PIECE", piece)
    path, digests = tmp_path / "file", set[str]()
    samples = [(b"x" * 40, False), (MARKER[:-1], False), (b"", False), (MARKER, True)]
    samples += [(b"x" * before + MARKER + b"y" * (30 - before), True) for before in range(31)]
    for data, external in samples:
        path.write_bytes(data)
        found = content(path)
        assert found.external == external
        digests.add(found.digest)
    assert len(digests) == len(samples)


def test_a_digest_does_not_depend_on_pieces_or_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 5)
    monkeypatch.setattr(file_key, "_SHARE", 100)
    digests = set[str]()
    for piece, cpus in ((7, 1), (64, 2), (1000, 9)):
        monkeypatch.setattr(file_key, "_PIECE", piece)
        monkeypatch.setattr(file_key, "available_cpus", lambda cpus=cpus: cpus)
        digests.add(content(path).digest)
    data = path.read_bytes()
    shares = [hashlib.sha256(data[at : at + 100]).digest() for at in range(0, len(data), 100)]
    assert digests == {hashlib.sha256(b"".join(shares)).hexdigest()}


def test_a_large_file_is_hashed_once(large: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch):
    first = file_key.file_parts(large, cache)
    with monkeypatch.context() as patch:
        patch.setattr(file_key, "read_content", lambda *_: pytest.fail("the note was not used"))
        assert file_key.file_parts(large, cache) == first
    facts = large.stat()
    large.write_bytes(b"othe model" + MARKER)  # of the same size, and the time of the old one
    os.utime(large, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert file_key.file_parts(large, cache)[1] != first[1]


def test_a_file_that_has_just_changed_is_not_noted(large: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(file_key, "_SETTLED_SECONDS", 1000.0)
    file_key.file_parts(large, cache)
    assert not list((cache.root / "digests").iterdir())


@pytest.mark.parametrize("note", ["", "0123 whole", f"{'0' * 64} else", f"{'0' * 64}whole"])
def test_a_damaged_note_is_made_again(large: Path, cache: Cache, note: str):
    first = file_key.file_parts(large, cache)
    (noted,) = (cache.root / "digests").iterdir()
    noted.write_text(note)
    assert file_key.file_parts(large, cache) == first
