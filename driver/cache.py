"""
Two caches on disk: compiled models and single kernels. Nothing here imports xdsl, onnx, llvmlite or numpy.

    $MLC_CACHE_DIR (else $XDG_CACHE_HOME/mlc, ~/.cache/mlc)
        models/<key>/      an artifact (runtime/artifact.py)
        kernels/<key>      a checksum, then what a worker returned
        asked/<key>        where records are in force: what they were asked for a model or a kernel
        digests/<key>      the digest of a large file, by its place on the disk, size and times

A key is a hash of everything that the content follows from. An entry is written under another name and published by
one rename, so a reader sees all of it or nothing. An entry whose checksum is wrong is removed, with a warning, and
made again. The directory is this user's alone (0700): its content is executed. `$MLC_CACHE_SIZE` bounds it (bytes,
4 GiB by default); what was used longest ago goes first.

What is compiled while tuning records are in force depends on their answers, too. So the questions that a model or a
kernel asked are kept under its key, and its entry under a key that includes the answers: the entry is found as long as
the records give the same answers.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from shutil import rmtree
from stat import S_IMODE

from mlc.driver.options import has_own_passes
from mlc.runtime.artifact import Artifact, DamagedArtifact
from mlc.support.errors import warn
from mlc.support.records import Provider, RecordKey, answers_digest
from mlc.support.registered.plugins import plugins, plugins_key, version_of
from mlc.support.scratch import PREFIX, release_scratch, remove_scratch

DEFAULT_SIZE = 4 << 30
_DIGEST = 32
_VARIANTS = 16
"""Lists of questions that are kept for a key, at most: there are several if an answer led to other kernels."""
_PARTS = ("models", "kernels", "asked", "digests")


class Cache:
    """The two caches in one directory."""

    def __init__(self, root: Path, size: int = DEFAULT_SIZE) -> None:
        self.root = root
        self.size = size

    @staticmethod
    def default() -> "Cache | None":
        """The user's cache; None where a program has passes of its own, or (with a warning) if it cannot be trusted."""
        if has_own_passes():
            return None
        root = cache_directory()
        try:
            root.mkdir(parents=True, exist_ok=True, mode=0o700)
            facts = root.stat()
            if facts.st_uid != os.getuid():
                raise OSError("it belongs to another user")
            if S_IMODE(facts.st_mode) & 0o077:
                root.chmod(0o700)
            for part in _PARTS:
                (root / part).mkdir(exist_ok=True, mode=0o700)
                if not os.access(root / part, os.W_OK):
                    raise OSError("it cannot be written")
        except OSError as error:
            warn(None, f"no cache: {root}: {error.strerror or error}")
            return None
        return Cache(root, _size_bound())

    # --- models ---

    def model(self, key: str) -> Artifact | None:
        """The compiled model of that key."""
        path = self.root / "models" / key
        if not path.is_dir():
            return None
        try:
            artifact = Artifact.open(path)
        except DamagedArtifact as error:
            warn(None, f"a cached model is damaged and will be compiled again: {error}")
            rmtree(path, ignore_errors=True)
            return None
        _touch(path)
        return artifact

    def publish_model(self, key: str, draft: Artifact) -> Artifact:
        """Move a finished artifact into the cache; if another process was first, its artifact stays."""
        path = self.root / "models" / key
        try:
            draft.path.rename(path)
            release_scratch(draft.path)
            model = draft.model
        except OSError:
            model = Artifact.open(path).model
            remove_scratch(draft.path)
        self.trim(keep=path)
        return Artifact(path, model)

    @property
    def drafts(self) -> Path:
        """Where an artifact is written before it is published: the same file system."""
        return self.root / "models"

    # --- kernels ---

    def kernel(self, key: str) -> bytes | None:
        """What was kept under that key."""
        path = self.root / "kernels" / key
        try:
            data = path.read_bytes()
        except OSError:
            return None
        if hashlib.sha256(data[_DIGEST:]).digest() != data[:_DIGEST]:
            warn(None, f"a cached kernel is damaged and will be compiled again: {path}")
            path.unlink(missing_ok=True)
            return None
        _touch(path)
        return data[_DIGEST:]

    def publish_kernel(self, key: str, data: bytes) -> None:
        """Keep a kernel; a full disk is not an error."""
        self._write("kernels", key, hashlib.sha256(data).digest() + data, "a kernel was not cached")

    def _write(self, part: str, name: str, data: bytes, failed: str) -> None:
        """Publish a file, or warn that it is not."""
        directory = self.root / part
        try:
            handle, temporary = tempfile.mkstemp(prefix=".", dir=directory)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                Path(temporary).rename(directory / name)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
        except OSError as error:
            warn(None, f"{failed}: {error.strerror}")

    # --- records ---

    def keys(self, key: str, records: Provider | None) -> list[str]:
        """The keys under which an entry may lie, given what records answer now; `key` alone if none are in force."""
        if records is None:
            return [key]
        return [_answered(key, records, asked) for asked in self._asked(key)]

    def note_asked(self, key: str, records: Provider | None, asked: Iterable[RecordKey]) -> str:
        """Note which questions an entry asked the records; returns the key under which it is to be published."""
        if records is None:
            return key
        mine, known = sorted(asked), self._asked(key)
        if mine not in known:
            text = json.dumps([mine, *known][:_VARIANTS])
            self._write("asked", key, text.encode(), "what the records were asked was not cached")
        return _answered(key, records, mine)

    def _asked(self, key: str) -> list[list[RecordKey]]:
        """The lists of questions to records that were noted for a key."""
        try:
            rows = json.loads((self.root / "asked" / key).read_text())
            return [[(hash_, target, threads) for hash_, target, threads in row] for row in rows]
        except (OSError, ValueError):
            return []

    # --- digests of files ---

    def digest(self, key: str) -> str:
        """The digest that was noted for a file of this place, size and times; empty if there is none."""
        path = self.root / "digests" / key
        try:
            text = path.read_text()
        except (OSError, ValueError):
            return ""
        _touch(path)
        return text

    def note_digest(self, key: str, text: str) -> None:
        """Note a text of a file; a full disk is not an error."""
        self._write("digests", key, text.encode(), "the digest of a file was not cached")

    # --- size ---

    def trim(self, keep: Path | None = None) -> None:
        """Remove what was used longest ago until the rest fits."""
        entries: list[tuple[int, Path, int]] = []
        for folder in [self.root / part for part in _PARTS if (self.root / part).is_dir()]:
            for path in folder.iterdir():
                if path.name.startswith(PREFIX):  # being written; abandoned ones go when the next is made
                    continue
                with suppress(FileNotFoundError):  # another process trims, too
                    entries.append((path.stat().st_mtime_ns, path, _bytes(path)))
        total = sum(size for _, _, size in entries)
        for _, path, size in sorted(entries):
            if total <= self.size:
                return
            if path != keep:
                rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
                total -= size


def _answered(key: str, records: Provider, asked: Iterable[RecordKey]) -> str:
    """The key of what was compiled with these answers."""
    return hashlib.sha256(f"{key} {answers_digest(records, asked)}".encode()).hexdigest()


def cache_directory() -> Path:
    """Where the caches are."""
    if directory := os.environ.get("MLC_CACHE_DIR"):
        return Path(directory)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mlc"


def key_of(parts: Iterable[bytes | str]) -> str:
    """The key of content that follows from these parts, the versions and this machine."""
    digest = hashlib.sha256(fingerprint().encode())
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def fingerprint() -> str:
    """The versions of mlc, its sources included, of xdsl, llvmlite and mlc's plugins, and the features of the CPU."""
    return _fingerprint(plugins())


@cache
def _fingerprint(_plugins: object) -> str:
    versions = [f"{name} {version_of(name)}" for name in ("xdsl", "llvmlite")]
    return "\n".join([*versions, plugins_key(), _sources(), _cpu()])


def _sources() -> str:
    """Name, size and time of every source file of mlc, and of the machines it describes: edits make other code."""
    from mlc.support.version import __version__

    root = str(Path(__file__).parent.parent)
    digest = hashlib.sha256(__version__.encode())
    stack = [root]
    while stack:
        directory = stack.pop()
        for entry in sorted(os.scandir(directory), key=lambda e: e.name):
            if entry.name.endswith((".py", ".toml")):
                facts = entry.stat()
                digest.update(f"{entry.path} {facts.st_size} {facts.st_mtime_ns}\n".encode())
            elif entry.is_dir() and entry.name != "__pycache__":
                stack.append(entry.path)
    return digest.hexdigest()


def _cpu() -> str:
    """The CPU's model and features, as Linux reports them; else what Python knows."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        import platform

        return f"{platform.machine()} {platform.processor()}"
    wanted = ("vendor_id", "cpu family", "model", "flags", "CPU implementer", "CPU part", "Features")
    first = text.partition("\n\n")[0]
    return "\n".join(line for line in first.splitlines() if line.partition(":")[0].strip() in wanted)


def _size_bound() -> int:
    text = os.environ.get("MLC_CACHE_SIZE", "")
    if text and not text.isdecimal():
        warn(None, f"expected MLC_CACHE_SIZE to be a number of bytes, but got '{text}'")
    return int(text) if text.isdecimal() else DEFAULT_SIZE


def _bytes(path: Path) -> int:
    try:
        return sum(f.stat().st_size for f in path.iterdir()) if path.is_dir() else path.stat().st_size
    except OSError:
        return 0


def _touch(path: Path) -> None:
    """Note that an entry was used."""
    try:
        os.utime(path)
    except OSError:
        pass
