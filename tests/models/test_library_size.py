"""The size of the code of a library, weights aside."""

import os
from pathlib import Path

import pytest
import zoo

from mlc.tools import cli

MOST = 200_000
"""Bytes of squeezenet's library without its weights."""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="targets of x86-64")
@pytest.mark.parametrize(("target", "threads"), [("x86-64-v3", 2), ("x86-64-v4", 1)])
def test_the_code_of_squeezenet_is_small(tmp_path: Path, target: str, threads: int):
    model, library = zoo.package_file("onnx", zoo.LIGHT + "squeezenet.onnx"), tmp_path / "net.so"
    words = ["compile", model, "--target", target, "--threads", threads, "-o", library]
    assert cli.run([str(word) for word in words]) == 0
    header = (tmp_path / "net.h").read_text()
    weights = int(header.partition("WEIGHTS_BYTES ")[2].split()[0])
    assert 0 < library.stat().st_size - weights <= MOST
