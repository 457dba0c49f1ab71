"""External compilers and open sizes: the toy accelerator takes sizes as arguments, others leave such ops to mlc."""

import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_accelerator

import mlc
from mlc.byoc import ExternalKernel, Pattern, is_op, register_compiler, remove_compiler
from mlc.dialects.graph.dims import DimExpr
from mlc.driver.export.package.write import write_package
from mlc.driver.options import Options
from mlc.passes.graph.external.annotate.size_text import size_text
from mlc.support.errors import collected_warnings
from mlc.support.registered import registrations

SHAPE = ("N", 3, "H", "W")
SIZES = [(2, 3, 17, 15), (1, 3, 8, 22), (5, 3, 9, 9)]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_accelerator.build(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def net(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    toy_accelerator.load().register(str(library))
    yield toy_accelerator.write_model(tmp_path_factory.mktemp("net") / "net.onnx", SHAPE)
    remove_compiler("toy")
    registrations.REGISTERED.pop(("compiler", "toy"))


def given(shape: tuple[int, ...]) -> dict[str, Any]:
    return {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}


def test_open_sizes_are_arguments(net: Path, library: Path, tmp_path: Path):
    """Two convolutions in one region, with a size that is a quotient, and a value between them of open size."""
    plain = mlc.compile(net, threads=1)
    exe = mlc.compile(net, threads=1, compilers=["toy"])
    rows = {row.origins: row.schedule for row in exe.profile(given(SIZES[0]), repeat=1)}
    assert rows["conv1", "relu1", "conv2"] == "external: toy"
    assert rows[("fc",)] == "external: toy"
    exe.save(tmp_path / "saved")
    loaded = [mlc.load_executable(tmp_path / "saved", executor=executor) for executor in ("aot", "steps")]
    for shape in SIZES:
        expected = plain(given(shape))["y"]
        for one in (exe, *loaded):
            before = toy_accelerator.cycles(library)
            np.testing.assert_allclose(one(given(shape))["y"], expected, rtol=1e-4, atol=1e-5)
            assert toy_accelerator.cycles(library) > before, "the device has run"


def test_open_sizes_in_a_package_of_c_source(net: Path, tmp_path: Path):
    options = Options(threads=1, compilers=("toy",))
    write_package(net, tmp_path / "net", options, name="net", lang="c")
    assert list((tmp_path / "net" / "src" / "external").glob("*toy*"))
    done = subprocess.run(["make", "-s", "check"], cwd=tmp_path / "net", capture_output=True, text=True)
    assert not done.returncode, done.stderr + done.stdout
    assert "y: agrees" in done.stdout


def test_open_sizes_are_validated(net: Path):
    report = mlc.compile(net, threads=1, compilers=["toy"], validate_each=True).report
    assert report["validated"]["comparisons"] > 5


def test_a_compiler_of_static_sizes_leaves_them(net: Path):
    register_compiler("still", [Pattern("conv", is_op("graph.conv2d")())], lambda region: ExternalKernel())
    try:
        with collected_warnings() as found:
            exe = mlc.compile(net, threads=1, compilers=["still"])
    finally:
        remove_compiler("still")
        registrations.REGISTERED.pop(("compiler", "still"))
    (text,) = found
    assert "compiler 'still' takes static sizes only: 2 matches of open sizes stay with mlc, by conv" in text
    assert exe(given(SIZES[1]))["y"].shape == (1, 10)


@pytest.mark.parametrize("height", [0, 1, 2, 7])
def test_sizes_as_c(height: int, tmp_path: Path):
    """Quotients are rounded down where C rounds towards 0."""
    symbol = DimExpr.symbol("H")
    size = (symbol - 2) // 3 * 4 + symbol * 2 + 1
    text = size_text(size, {symbol: "h"})
    (tmp_path / "size.c").write_text(f"int main(void) {{ long h = {height}; return (int){text} + 8; }}")
    subprocess.run(["cc", "-o", "size", "size.c"], check=True, cwd=tmp_path)
    expected = (height - 2) // 3 * 4 + height * 2 + 1
    assert subprocess.run([tmp_path / "size"]).returncode == expected + 8
