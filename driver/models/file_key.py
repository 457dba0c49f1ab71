"""
The parts of a cache key that a model's file gives: what it contains, and what it reads besides.

A warm start hashes the file and does little else, so large files are hashed by all CPUs, and the cache notes their
digests under the facts that the file system keeps of them. This file imports nothing heavy.
"""

from __future__ import annotations

import hashlib
import os
import time
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from mlc.support.files import open_file
from mlc.support.limits import limits
from mlc.support.registered.plugins import version_of
from mlc.support.threads import available_cpus

if TYPE_CHECKING:
    from mlc.driver.cache import Cache

NOTED_BYTES: Final = 1 << 26
"""Bytes from which the digest of a file is noted; smaller files are hashed in some 30 ms."""
_SETTLED_SECONDS: Final = 2.0
"""Age from which a file's times tell two writes apart, on file systems with the coarsest of times."""
_SHARE: Final = 1 << 24
"""Bytes that one thread hashes; a constant, since the digest follows from it."""
_PIECE: Final = 1 << 18
"""Bytes of a file that are read at a time."""
_EXTERNAL: Final = b"\x0a\x08location"
"""The bytes of a key that every ONNX file with external data contains."""


_KINDS: Final = ("whole", "external")
"""In a note: whether the file names external data."""
_HEX_DIGITS: Final = 64
"""Of a SHA-256 in hexadecimal."""


class Content(NamedTuple):
    """What a file contains: a checksum, and whether it names external data."""

    digest: str
    external: bool


def file_parts(path: Path, cache: Cache) -> list[bytes | str]:
    """The parts of a file's cache key: its content, and weights beside it, external data, the version of torch."""
    content = _content(path, cache, limits.input_bytes if path.suffix == ".mlir" else None)
    parts: list[bytes | str] = [path.suffix, content.digest]
    if path.suffix == ".pt2":
        return [*parts, version_of("torch")]
    beside = path.with_suffix(".safetensors")
    if path.suffix == ".mlir" and beside.exists():
        parts.append(_content(beside, cache).digest)
    if content.external:
        for directory, _, names in os.walk(path.parent):
            for name in sorted(names):
                facts = os.stat(os.path.join(directory, name))
                parts.append(f"{directory}/{name} {facts.st_size} {facts.st_mtime_ns}")
    return parts


def _content(path: Path, cache: Cache, max_bytes: int | None = None) -> Content:
    """
    What a file contains, as the cache noted it or by reading it.

    The digest of a large file is noted under the file's place on the disk, its size and its times; programs cannot set
    the time of the last change of the inode. A file that changed within the last seconds is not noted, since it may
    change again within the resolution of these times. UserError where it is larger than `max_bytes`.
    """
    with open_file(path, max_bytes) as file:
        facts = os.fstat(file.fileno())
        if facts.st_size < NOTED_BYTES:
            return read_content(file, facts.st_size)
        name = f"{facts.st_dev} {facts.st_ino} {facts.st_size} {facts.st_mtime_ns} {facts.st_ctime_ns}"
        key = hashlib.sha256(name.encode()).hexdigest()
        if (noted := _parsed(cache.digest(key))) is not None:
            return noted
        settled = time.time() - max(facts.st_mtime, facts.st_ctime) > _SETTLED_SECONDS
        content = read_content(file, facts.st_size)
        after = os.fstat(file.fileno())
        if settled and (after.st_mtime_ns, after.st_ctime_ns) == (facts.st_mtime_ns, facts.st_ctime_ns):
            cache.note_digest(key, f"{content.digest} {_KINDS[content.external]}")
        return content


def _parsed(text: str) -> Content | None:
    """What a note says; None of one that is missing or damaged."""
    digest, _, kind = text.partition(" ")
    return Content(digest, bool(_KINDS.index(kind))) if len(digest) == _HEX_DIGITS and kind in _KINDS else None


def read_content(file: IO[bytes], size: int) -> Content:
    """What a file of some bytes contains; threads hash a share each."""
    ends = [*range(0, size, _SHARE), size]
    if len(ends) <= 2:
        found = [_share(file.fileno(), 0, size)]
    else:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(available_cpus(), len(ends) - 1)) as pool:
            found = list(pool.map(partial(_share, file.fileno()), ends[:-1], ends[1:]))
    whole = hashlib.sha256(b"".join(digest for digest, _ in found))
    return Content(whole.hexdigest(), any(external for _, external in found))


def _share(handle: int, start: int, end: int) -> tuple[bytes, bool]:
    """The checksum of a share, and whether it, or what goes on behind it, names external data; read in pieces."""
    digest, external, before = hashlib.sha256(), False, len(_EXTERNAL) - 1
    buffer = bytearray(before + _PIECE)  # the last bytes of a piece stand before the next
    while start < end:
        count = os.preadv(handle, [memoryview(buffer)[before : before + min(_PIECE, end - start)]], start)
        if not count:
            break
        digest.update(memoryview(buffer)[before : before + count])
        external = external or buffer.find(_EXTERNAL, 0, before + count) >= 0
        buffer[:before] = buffer[count : before + count]
        start += count
    tail = os.pread(handle, before, end) if start == end else b""
    return digest.digest(), external or _EXTERNAL in bytes(buffer[:before]) + tail
