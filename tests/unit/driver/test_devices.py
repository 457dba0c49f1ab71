"""Programs for several devices: each kernel for its device's target, values as of a program for one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_accelerator

import mlc
from mlc.byoc import remove_compiler
from mlc.dialects.graph import AddOp
from mlc.runtime.artifact import Artifact
from mlc.support.errors import UserError
from mlc.support.weights import WeightStore
from mlc.targets import device as devices
from mlc.tools import cli

NET = """
func.func @main(%x: tensor<4x64xf32> {graph.name = "x"}) -> (tensor<4x64xf32> {graph.name = "y"}) {
  %w = graph.param "w" : tensor<64x64xf32>
  %0 = graph.dense %x, %w : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %1 = graph.tanh %0 : tensor<4x64xf32>
  %2 = graph.on_device %1 {device = "little"} : tensor<4x64xf32>
  %3 = graph.dense %2, %w : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %4 = graph.add %3, %2 : tensor<4x64xf32>
  return %4 : tensor<4x64xf32>
}
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("net") / "net.mlir"
    path.write_text(NET)
    store = WeightStore()
    store.add("w", weights())
    store.save(path.with_suffix(".safetensors"))
    return path


def weights() -> Any:
    return (np.random.default_rng(1).standard_normal((64, 64)) / 8).astype(np.float32)


def given() -> Any:
    return np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)


def expected(x: Any) -> Any:
    w = weights()
    middle = np.tanh(x @ w.T)
    return middle @ w.T + middle


def compiled(path: Path, devices: Any, **options: Any) -> mlc.Executable:
    return mlc.compile(path, target="x86-64-v3", devices=devices, threads=1, cache=False, **options)


def described(exe: mlc.Executable, path: Path) -> dict[str, Any]:
    exe.save(path)
    return Artifact.open(path).model


def test_each_kernel_is_for_the_target_of_its_device(path: Path, tmp_path: Path):
    exe = compiled(path, {"little": "x86-64-v2"})
    np.testing.assert_allclose(exe({"x": given()})["y"], expected(given()), rtol=1e-5, atol=1e-5)
    rows = exe.profile({"x": given()}).rows
    assert [row.device for row in rows] == ["little", "cpu"]
    assert "on little" in str(exe.profile({"x": given()}))
    model = described(exe, tmp_path / "saved")
    assert model["devices"] == [
        {"name": "cpu", "target": "x86-64-v3", "memory": "global"},
        {"name": "little", "target": "x86-64-v2", "memory": "global"},
    ]
    loaded = mlc.load_executable(tmp_path / "saved")
    assert np.array_equal(loaded({"x": given()})["y"], exe({"x": given()})["y"])


def test_the_code_of_a_device_uses_its_instructions_only(path: Path, capsys: pytest.CaptureFixture[str]):
    def text(*options: str) -> str:
        assert cli.run(["compile", str(path), "--emit", "llvm-ir", "--threads", "1", "--no-cache", *options]) == 0
        return capsys.readouterr().out

    both = text("--target", "llvm -mcpu=x86-64-v3", "--device", "little=x86-64-v2")
    assert '"target-cpu"="x86-64-v2"' in both
    assert '"target-cpu"="x86-64-v3"' in both


def test_a_memory_of_its_own_is_copied_to(path: Path):
    exe = compiled(path, {"little": mlc.Device("x86-64-v2", memory="near")})
    np.testing.assert_allclose(exe({"x": given()})["y"], expected(given()), rtol=1e-5, atol=1e-5)
    rows = exe.profile({"x": given()}).rows
    assert [(row.kernel.rpartition("_")[0], row.device) for row in rows if "copy" in row.kernel] == [
        ("device_copy", "little"),
        ("device_copy", "cpu"),
    ]


@pytest.mark.parametrize("level", [0, 1, 2, 4])
def test_every_optimisation_level(path: Path, level: int):
    exe = compiled(path, {"little": mlc.Device("x86-64-v2", memory="near")}, opt_level=level)
    np.testing.assert_allclose(exe({"x": given()})["y"], expected(given()), rtol=1e-5, atol=1e-5)


def test_passes_are_validated_on_placed_models(path: Path):
    exe = compiled(path, {"little": "x86-64-v2"}, validate_each=True)
    assert exe.report["validated"]["comparisons"] > 10


def test_a_program_with_a_host_of_another_target(path: Path, tmp_path: Path):
    exe = mlc.compile(path, target="x86-64-v2 -host=x86-64-v3", devices={"little": "x86-64"}, threads=1, cache=False)
    np.testing.assert_allclose(exe({"x": given()})["y"], expected(given()), rtol=1e-5, atol=1e-5)
    target = described(exe, tmp_path / "saved")["target"]
    assert target["name"] == "x86-64-v2 -host=x86-64-v3"
    assert "avx2" in target["cpu_features"]


def test_the_features_of_every_device_are_needed(path: Path, tmp_path: Path):
    exe = mlc.compile(path, target="x86-64", devices={"little": "x86-64-v3"}, threads=1, cache=False)
    assert "avx2" in described(exe, tmp_path / "saved")["target"]["cpu_features"]


def test_the_cache_knows_the_devices(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    names = ("x86-64-v2", "x86-64", "x86-64-v2")
    exes = [mlc.compile(path, target="x86-64-v3", devices={"little": name}, threads=1) for name in names]
    targets = [described(exe, tmp_path / str(k))["devices"][1]["target"] for k, exe in enumerate(exes)]
    assert targets == list(names)


def test_target_c_compiles_kernels_by_the_c_compiler(path: Path):
    for threads in (1, 2):
        exe = mlc.compile(path, target="c", devices={"little": "native"}, threads=threads, cache=False)
        np.testing.assert_allclose(exe({"x": given()})["y"], expected(given()), rtol=1e-5, atol=1e-5)


def test_a_copy_in_the_text(tmp_path: Path):
    text = """
func.func @main(%x: tensor<4xf32> {graph.name = "x"}) -> (tensor<4xf32> {graph.name = "y"}) {
  %0 = graph.neg %x : tensor<4xf32>
  %1 = graph.device_copy %0 {src = "little", dst = "cpu"} : tensor<4xf32>
  %2 = graph.exp %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}
"""
    (tmp_path / "copied.mlir").write_text(text)
    exe = compiled(tmp_path / "copied.mlir", {"little": "x86-64-v2"})
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_allclose(exe({"x": x})["y"], np.exp(-x), rtol=1e-6)
    assert [row.device for row in exe.profile({"x": x}).rows] == ["little", "cpu"]


def test_an_editor_places_nodes(path: Path):
    from mlc.dialects.graph import OnDeviceOp, TanhOp

    model = mlc.load(path)
    with model.edit() as graph:
        for op in graph.find(OnDeviceOp):
            graph.replace(op, op.operands[0])
        graph.on_device(graph.find(TanhOp)[0], "little")
        graph.on_device(graph.outputs["y"], "tiny")
    exe = compiled(model, {"little": "x86-64-v2", "tiny": "x86-64"})  # pyright: ignore[reportArgumentType] a model, too
    np.testing.assert_allclose(exe({"x": given()})["y"], expected(given()), rtol=1e-5, atol=1e-5)
    assert [row.device for row in exe.profile({"x": given()}).rows] == ["little", "tiny"]


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        (None, r"expected a device of the program \(cpu\), but got 'little'"),
        ({"litle": "x86-64-v2"}, "but got 'little'; did you mean 'litle'"),
        ({"cpu": "x86-64-v2"}, "besides the host 'cpu'"),
        (["little"], "expected devices as a dict"),
        ({"li ttle": "native"}, "expected the name of a device to be a word"),
        ({"little": "aarch64"}, "expected device 'little' to be of the host's architecture, x86_64, but"),
        ({"little": "z80"}, "expected target to be one of"),
        ({"little": 7}, "expected target to be a name like"),
    ],
)
def test_wrong_devices(path: Path, devices: Any, message: str):
    with pytest.raises(UserError, match=message):
        compiled(path, devices)


def test_the_text_of_a_device():
    with pytest.raises(
        UserError,
        match="expected a device like little=x86-64-v2, near=x86-64-v2@sram or npu=native@sram:toy, but got 'little'",
    ):
        devices.parse_device("little")
    assert devices.parse_device("near=x86-64-v2@sram") == ("near", mlc.Device("x86-64-v2", memory="sram"))
    with pytest.raises(UserError, match="expected the memory of a device to be a word"):
        mlc.Device("native", memory="a b")


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The model that the toy accelerator takes parts of, and its simulator."""
    directory = tmp_path_factory.mktemp("toy")
    module = toy_accelerator.load()
    module.register(str(toy_accelerator.build(directory)))
    yield toy_accelerator.write_model(directory / "net.onnx")
    remove_compiler("toy")


@pytest.mark.parametrize("memory", ["global", "sram"])
def test_an_accelerator_is_a_device_with_a_compiler(toy: Path, tmp_path: Path, memory: str):
    """What the compiler takes is on its device, each value that crosses is copied once, and the program is saved."""
    inputs = toy_accelerator.inputs()
    plain = mlc.compile(toy, threads=1)(inputs)["y"]
    npu = mlc.Device("native", memory=memory, compiler="toy")
    exe = mlc.compile(toy, devices={"npu": npu}, threads=1, cache=False)
    np.testing.assert_allclose(exe(inputs)["y"], plain, rtol=1e-4, atol=1e-5)
    rows = [(row.device, row.kernel.partition("_")[0]) for row in exe.profile(inputs).rows]
    assert [device for device, kernel in rows if kernel == "toy"] == ["npu"] * 2
    assert {device for device, kernel in rows if kernel not in ("toy", "device")} == {"cpu"}
    copies = [device for device, kernel in rows if kernel == "device"]
    assert copies == ([] if memory == "global" else ["npu", "cpu", "cpu", "npu", "cpu"])
    model = described(exe, tmp_path / "saved")
    assert model["devices"][1] == {"name": "npu", "target": "native", "memory": memory, "compiler": "toy"}
    assert np.array_equal(mlc.load_executable(tmp_path / "saved")(inputs)["y"], exe(inputs)["y"])


def test_a_device_computes_only_what_its_compiler_takes(toy: Path):
    npu = mlc.Device("native", memory="sram", compiler="toy")
    model = mlc.load(toy)
    with model.edit() as graph:
        graph.on_device(graph.find(AddOp)[0], "npu")
    message = "expected ops that compiler 'toy' takes on device 'npu', but none of .* matches graph.sigmoid 'gate'"
    with pytest.raises(UserError, match=message):
        mlc.compile(model, devices={"npu": npu}, cache=False)
    with pytest.raises(UserError, match="expected a compiler of its own for each device, but got toy, toy"):
        mlc.compile(toy, devices={"a": npu, "b": npu})
    with pytest.raises(UserError, match="expected the compiler of a device to be an identifier, but got 'a b'"):
        mlc.Device("native", compiler="a b")
    with pytest.raises(UserError, match="expected a registered compiler, but got 'tpu'"):
        mlc.compile(toy, devices={"npu": mlc.Device("native", compiler="tpu")}, cache=False)


def test_the_command_line_names_a_devices_compiler():
    assert devices.parse_device("npu=native@sram:toy") == ("npu", devices.Device("native", "sram", compiler="toy"))
    assert devices.parse_device("npu=native:toy") == ("npu", devices.Device("native", compiler="toy"))
