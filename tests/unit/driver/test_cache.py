"""The caches: what is found, what is not, damage, size, other people's directories."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import small_model

import mlc
from mlc import te
from mlc.dialects import own_ops
from mlc.driver import cache as cache_module
from mlc.driver.cache import Cache, key_of
from mlc.driver.pipeline import registry
from mlc.runtime.artifact import Artifact


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "cache"
    monkeypatch.setenv("MLC_CACHE_DIR", str(directory))
    for name in ("USER_PASSES", "USER_DIALECTS"):  # other tests register some
        monkeypatch.setattr(registry, name, {})
    monkeypatch.setattr(own_ops, "USER_OPS", {})
    return directory


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return small_model.write(tmp_path, small_model.ONE_TEXT)


def run(path: Path, **options: object) -> np.ndarray:
    (out,) = mlc.compile(path, threads=1, **options)({"x": small_model.inputs()["x"]}).values()
    return out


def entries(root: Path, part: str) -> list[Path]:
    return sorted((root / part).iterdir())


def replace(path: Path, data: bytes) -> None:
    """Another file in its place: the old one may be mapped."""
    path.unlink()
    path.write_bytes(data)


def test_the_second_compilation_is_found(root: Path, path: Path, monkeypatch: pytest.MonkeyPatch):
    first = run(path)
    assert len(entries(root, "models")) == 1
    monkeypatch.setattr("mlc.driver.models.load.load_mapped", lambda *_: pytest.fail("the cache was not used"))
    assert np.array_equal(run(path), first)


@pytest.mark.parametrize("what", ["text", "weights", "options", "sources", "pipelines"])
def test_a_change_of_anything_is_not_found(root: Path, path: Path, monkeypatch: pytest.MonkeyPatch, what: str):
    run(path)
    if what == "text":
        path.write_text(small_model.ONE_TEXT.replace("graph.relu", "graph.tanh"))
    elif what == "weights":
        data = bytearray(path.with_suffix(".safetensors").read_bytes())
        data[-2] ^= 1
        path.with_suffix(".safetensors").write_bytes(data)
    elif what == "pipelines":
        from mlc.driver.pipeline.pipelines import PIPELINES

        monkeypatch.setitem(PIPELINES, "graph-O3", ["graph-canonicalize", *PIPELINES["graph-O3"]])
    elif what == "sources":
        monkeypatch.setattr(cache_module, "fingerprint", lambda: "edited")
    run(path, opt_level=2 if what == "options" else 3)
    assert len(entries(root, "models")) == 2


def test_passes_of_a_program_are_not_cached(root: Path, path: Path, monkeypatch: pytest.MonkeyPatch):
    from mlc.passes.graph.simplify.canonicalize import CanonicalizePass

    monkeypatch.setitem(registry.USER_PASSES, "my-pass", CanonicalizePass)
    run(path)
    assert not root.exists()


def test_who_publishes_second_uses_the_first(root: Path, path: Path):
    exe = mlc.compile(path, threads=1)
    store, (entry,) = Cache.default(), entries(root, "models")
    assert store is not None
    for name in ("one", "two"):
        exe.save(root / "models" / name)
    published = [store.publish_model("key", Artifact.open(root / "models" / name)) for name in ("one", "two")]
    assert published[0] == published[1]
    assert entries(root, "models") == sorted([entry, root / "models" / "key"])


def test_kernels_are_shared_between_models(root: Path, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first = run(path)
    kernels = entries(root, "kernels")
    other = tmp_path / "other.mlir"
    other.write_text(small_model.ONE_TEXT + "// the same kernels\n")
    path.with_suffix(".safetensors").rename(tmp_path / "other.safetensors")
    monkeypatch.setattr("mlc.driver.kernels.kernel.compile_kernel", lambda *_: pytest.fail("a kernel again"))
    monkeypatch.setattr("mlc.driver.models.kernels.compile_kernel", lambda *_: pytest.fail("compiled again"))
    assert np.array_equal(run(other), first)
    assert entries(root, "kernels") == kernels


@pytest.mark.parametrize("name", ["model.json", "model.sum", "code.so", "objects.bin", "weights.bin"])
def test_a_damaged_model_is_compiled_again(root: Path, path: Path, capfd: pytest.CaptureFixture[str], name: str):
    first = run(path)
    (entry,) = entries(root, "models")
    damaged = entry / name
    replace(damaged, damaged.read_bytes()[:-1] + b"?")
    assert np.array_equal(run(path), first)
    assert "a cached model is damaged and will be compiled again" in capfd.readouterr().err
    assert np.array_equal(run(path), first)
    assert capfd.readouterr().err == ""


def test_a_damaged_kernel_is_compiled_again(root: Path, path: Path, capfd: pytest.CaptureFixture[str]):
    first = run(path)
    for kernel in entries(root, "kernels"):
        kernel.write_bytes(kernel.read_bytes()[:-1])
    path.write_text(path.read_text() + "// anew\n")
    assert np.array_equal(run(path), first)
    assert "a cached kernel is damaged and will be compiled again" in capfd.readouterr().err


def test_nothing_is_kept_without_a_cache(root: Path, path: Path):
    run(path, cache=False)
    assert not root.exists()


def test_temporary_files_go(root: Path, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    exe = mlc.compile(path, threads=1, cache=False)
    assert list(scratch.iterdir())
    del exe
    assert not list(scratch.iterdir())


def test_the_directory_is_the_users_alone(root: Path, path: Path):
    root.mkdir(mode=0o755)
    run(path)
    assert root.stat().st_mode & 0o777 == 0o700


def test_a_directory_of_another_user_is_not_used(
    root: Path, path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    root.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: 12345678)
    run(path)
    assert "no cache" in capfd.readouterr().err
    assert not list(root.iterdir())


def test_a_place_that_cannot_be_made_is_a_warning(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MLC_CACHE_DIR", str(tmp_path / "file" / "cache"))
    run(path)
    assert "warning: no cache" in capfd.readouterr().err


def test_a_directory_that_cannot_be_written_is_a_warning(
    root: Path, path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(os, "access", lambda *_: False)
    run(path)
    assert "it cannot be written" in capfd.readouterr().err
    assert not list(root.glob("*/*"))


def test_what_was_used_longest_ago_goes_first(tmp_path: Path):
    (tmp_path / "models").mkdir()
    (tmp_path / "kernels").mkdir()
    store = Cache(tmp_path, size=2500)
    for index, name in enumerate("abcd"):
        store.publish_kernel(name, bytes(968))
        os.utime(tmp_path / "kernels" / name, (index, index))
    assert store.kernel("a") is not None  # used now
    store.trim()
    assert [p.name for p in entries(tmp_path, "kernels")] == ["a", "d"]


def test_operators_do_not_fill_the_cache_beyond_its_size(root: Path, monkeypatch: pytest.MonkeyPatch):
    def build(rows: int) -> None:
        x = te.placeholder((rows, 16), name="x")
        mlc.build([x, te.compute((rows, 16), lambda i, j: x[i, j] + 1.0, name="y")], threads=1)

    build(3)
    size = 100 + sum(path.stat().st_size for path in entries(root, "kernels"))
    monkeypatch.setenv("MLC_CACHE_SIZE", str(size))
    build(4)
    assert sum(path.stat().st_size for path in entries(root, "kernels")) <= size


def test_keys_tell_parts_apart():
    assert key_of(["ab", "c"]) != key_of(["a", "bc"])
    assert key_of(["ab"]) == key_of([b"ab"])


def test_a_wrong_size_bound_is_a_warning(
    root: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("MLC_CACHE_SIZE", "lots")
    store = Cache.default()
    assert store is not None
    assert store.size == cache_module.DEFAULT_SIZE
    assert "expected MLC_CACHE_SIZE to be a number of bytes, but got 'lots'" in capfd.readouterr().err


def test_a_warm_start_imports_nothing_heavy(root: Path, path: Path):
    run(path)
    program = (
        "import sys, numpy, mlc\n"
        f"exe = mlc.compile({str(path)!r}, threads=1)\n"
        "exe({'x': numpy.zeros((4, 64), 'f4')})\n"
        "print([m for m in ('xdsl', 'onnx', 'llvmlite', 'rich', 'ml_dtypes') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
