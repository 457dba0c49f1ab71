"""Modules that are no models, and outputs that do not exist: one diagnostic with its place, exit code 1."""

import re
from pathlib import Path

import pytest

from mlc import te
from mlc.support.errors import UserError
from mlc.tools import cli, mlc_opt, reporting

KINDS = {
    "i4": ("%x: tensor<1x8xf16>, %y: tensor<1x8xi4>", "tensor<1x8xf16>", "got .*i4"),
    "complex": ("%x: tensor<8xcomplex<f32>>", "tensor<8xcomplex<f32>>", "got .*complex<f32>"),
    "memref": ("%x: memref<1x8xf32>", "memref<1x8xf32>", r"expected a tensor, but got memref<1x8xf32>"),
    "unranked": ("%x: tensor<*xf32>", "tensor<*xf32>", r"expected a tensor, but got tensor<\*xf32>"),
    "open": ("%x: tensor<?x8xf32>", "tensor<?x8xf32>", "expected a #graph.dims encoding"),
}


def write(path: Path, arguments: str, result: str, body: str = "") -> str:
    text = f"func.func @main({arguments}) -> {result} {{\n  {body}\n  func.return %x : {result}\n}}\n"
    path.write_text(text)
    return str(path)


def refused(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert cli.run(words) == 1
    (first, *rest) = capsys.readouterr().err.splitlines()
    assert "error: " in first
    assert re.search(message, first)
    assert not any("error:" in line for line in rest)


@pytest.mark.parametrize("command", [["compile", "--no-cache"], ["inspect"], ["check"], ["run-ir", "--random", "0"]])
@pytest.mark.parametrize("kind", KINDS)
def test_values_of_main_that_are_no_tensors(tmp_path, capsys, kind, command):
    arguments, result, message = KINDS[kind]
    path = write(tmp_path / "bad.mlir", arguments, result)
    refused(capsys, [command[0], path, *command[1:]], message)


def test_two_inputs_of_one_name(tmp_path, capsys):
    named = '%x: tensor<8xf32> {graph.name = "x"}, %y: tensor<8xf32> {graph.name = "x"}'
    path = write(tmp_path / "twice.mlir", named, "tensor<8xf32>")
    refused(capsys, ["compile", path, "--no-cache"], "expected each input to have a name of its own, but got 'x' twice")


def test_check_refuses_operations_that_compiling_does(tmp_path, capsys):
    body = "%0 = arith.addf %x, %x : tensor<8xf32>"
    path = write(tmp_path / "arith.mlir", "%x: tensor<8xf32>", "tensor<8xf32>", body)
    refused(capsys, ["check", path], "'arith.addf' op expected only .* in @main; .* write graph.add$")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-t", "llvm"], "xDSL cannot print this as 'llvm'"),
        (["--emit", "c"], "expected a loop.func in a module for C, but got none"),
        (["-p", "O3", "--emit", "asm"], "lower it first: -p O3,main,program"),
    ],
)
def test_outputs_that_a_module_does_not_have(capsys, options, message):
    assert mlc_opt.run(["examples/mlp.mlir", *options]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("extent", [0, -1, "a"])
def test_a_reduction_axis_has_at_least_one_element(extent):
    with pytest.raises(UserError, match="expected the extent of a reduction axis to be a size of at least 1"):
        te.reduce_axis(extent, "k")


def test_want_of_memory_is_no_bug(capsys, monkeypatch):
    assert reporting.is_users(MemoryError("Unable to allocate 582. TiB"))
    reporting.report(MemoryError("Unable to allocate 582. TiB"))
    assert capsys.readouterr().err == "mlc: error: not enough memory: Unable to allocate 582. TiB\n"


@pytest.mark.parametrize("port", [-5, 99999])
def test_ports_that_do_not_exist(port):
    pytest.importorskip("distributed")
    from mlc.tuning.cluster.start import run_scheduler

    with pytest.raises(UserError, match="expected a port from 0 to 65535"):
        run_scheduler("127.0.0.1", port, None, True, print)
