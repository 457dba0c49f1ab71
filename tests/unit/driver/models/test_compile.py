"""From a model to an executable, and what an executable promises."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_model

import mlc
from mlc.driver.kernels.workers import KernelCrash
from mlc.support.errors import UserError


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model.write(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def exe(path: Path) -> mlc.Executable:
    return mlc.compile(path, threads=2)


def agree(outputs: dict[str, Any], given: dict[str, Any]) -> None:
    wanted = small_model.expected(given)
    assert list(outputs) == list(wanted)
    for name, array in wanted.items():
        np.testing.assert_allclose(outputs[name], array, rtol=1e-5, atol=1e-5)


def test_the_compiled_model_computes_what_numpy_does(exe: mlc.Executable):
    given = small_model.inputs()
    agree(exe(given), given)
    assert [str(spec) for spec in exe.inputs] == ["x: 4x64 float32", "y: 4x32 float32"]
    assert exe.outputs[1] == mlc.TensorSpec("sum", (2, 64), "float32")


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_every_optimisation_level(path: Path, level: int):
    given = small_model.inputs(level)
    agree(mlc.compile(path, opt_level=level, threads=1)(given), given)


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64"])
def test_narrow_vectors(path: Path, target: str):
    given = small_model.inputs()
    agree(mlc.compile(path, target=target, threads=1)(given), given)


def test_a_run_is_repeated_exactly(exe: mlc.Executable):
    given = small_model.inputs()
    first, again = exe(given), exe(given)
    assert all(np.array_equal(first[name], again[name]) for name in first)


def test_steps_run_the_same_code(path: Path, exe: mlc.Executable):
    given = small_model.inputs()
    stepped = mlc.compile(path, threads=2, executor="steps")
    assert all(np.array_equal(stepped(given)[n], a) for n, a in exe(given).items())
    graph = stepped.graph_json
    assert sum(node["flops"] for node in graph["nodes"]) >= 2 * 4 * 32 * (64 + 32)
    kinds = {value["storage"] for value in graph["values"]}
    assert kinds == {"input", "output", "weights", "workspace"}


def test_profile_names_each_call(exe: mlc.Executable):
    profile = exe.profile(small_model.inputs(), repeat=3)
    assert [row.kernel for row in profile] == [node["kernel"] for node in exe.graph_json["nodes"]]
    assert all(0 < row.seconds for row in profile)
    assert f"all: {len(profile)} calls" in str(profile)


def test_strided_inputs_are_copied(exe: mlc.Executable):
    given = small_model.inputs()
    strided = {"x": np.repeat(given["x"], 2, axis=1)[:, ::2], "y": np.asfortranarray(given["y"])}
    assert not strided["x"].flags.c_contiguous
    agree(exe(strided), given)


def test_outputs_can_be_given(exe: mlc.Executable):
    given = small_model.inputs()
    mine = np.full((2, 64), np.nan, np.float32)
    outputs = exe(given, out={"sum": mine})
    assert outputs["sum"] is mine
    agree(outputs, given)


def test_outputs_of_a_call_are_its_own(exe: mlc.Executable):
    first = exe(small_model.inputs(1))
    kept = first["hidden"].copy()
    exe(small_model.inputs(2))
    assert np.array_equal(first["hidden"], kept)


X, Y = small_model.inputs()["x"], small_model.inputs()["y"]


def unaligned() -> Any:
    raw = np.zeros(4 * 64 * 4 + 1, np.uint8)
    return raw[1:].view(np.float32).reshape(4, 64)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": X}, "input 'y' is missing"),
        ({"x": X, "y": Y, "z": Y}, "an unknown input 'z'"),
        ({"x": X[:3], "y": Y}, r"expected input 'x' of shape \(4, 64\), but got \(3, 64\)"),
        ({"x": X.astype(np.float64), "y": Y}, "expected input 'x' of dtype float32, but got float64"),
        ({"x": X.astype(">f4"), "y": Y}, "dtype float32"),
        ({"x": unaligned(), "y": Y}, "at a multiple of 4 bytes"),
        ([X, Y], "expected inputs as a dict"),
    ],
)
def test_wrong_inputs_are_refused_before_any_kernel_runs(exe: mlc.Executable, given: Any, message: str):
    out = np.full((4, 32), 7, np.float32)
    with pytest.raises(ValueError, match=message):
        exe(given, out={"hidden": out})
    assert (out == 7).all()


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ({"other": Y}, "unknown output 'other'"),
        ({"hidden": X}, r"expected output 'hidden' of shape \(4, 32\)"),
        ({"hidden": [1]}, "expected output 'hidden' to be an array, but got list"),
        ({"hidden": np.zeros((4, 64), np.float32)[:, ::2]}, "a contiguous array"),
    ],
)
def test_wrong_output_arrays_are_refused(exe: mlc.Executable, out: Any, message: str):
    with pytest.raises(ValueError, match=message):
        exe(small_model.inputs(), out=out)


def test_python_threads_may_share_an_executable(exe: mlc.Executable):
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        given = small_model.inputs(seed)
        try:
            for _ in range(50):
                agree(exe(given), given)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_saved_and_loaded(exe: mlc.Executable, tmp_path: Path):
    given = small_model.inputs()
    exe.save(tmp_path / "saved")
    exe.save(tmp_path / "saved")
    loaded = mlc.load_executable(tmp_path / "saved", threads=1)
    assert loaded.threads == 1
    agree(loaded(given), given)


def test_another_model_saved_in_the_same_place(exe: mlc.Executable, tmp_path: Path):
    exe.save(tmp_path / "saved")
    mlc.load_executable(tmp_path / "saved")
    other = tmp_path / "other"
    other.mkdir()
    mlc.compile(small_model.write(other, small_model.ONE_TEXT), threads=1).save(tmp_path / "saved")
    out = mlc.load_executable(tmp_path / "saved")({"x": X})["out"]
    np.testing.assert_allclose(out, np.maximum(X @ small_model.weights()["w"].T, 0), rtol=1e-5, atol=1e-5)


def test_saving_does_not_replace_what_is_not_ours(exe: mlc.Executable, tmp_path: Path):
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(UserError, match="to be empty or a saved executable"):
        exe.save(tmp_path)
    assert (tmp_path / "precious.txt").exists()


@pytest.mark.parametrize("name", ["weights.bin", "objects.bin", "code.so", "model.json"])
def test_damaged_files_are_found_when_loading(exe: mlc.Executable, tmp_path: Path, name: str):
    exe.save(tmp_path / "saved")
    damaged = tmp_path / "saved" / name
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.unlink()
    damaged.write_bytes(data)
    with pytest.raises(UserError, match="checksum is wrong"):
        mlc.load_executable(tmp_path / "saved")


def test_a_model_in_memory_is_left_as_it_was(path: Path):
    model = mlc.load(path)
    text, names = str(model.module), list(model.weights)
    given = small_model.inputs()
    agree(mlc.compile(model, threads=1, cache=False)(given), given)
    agree(mlc.compile(model, threads=1)(given), given)
    assert (str(model.module), list(model.weights)) == (text, names)


def test_without_a_compiler_llvm_links(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    given = small_model.inputs()
    exe = mlc.compile(path, threads=2, cache=False)
    assert exe.artifact.code is None
    agree(exe(given), given)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"executor": "tvm"}, "expected executor to be one of .*, but got 'tvm'"),
        ({"opt_level": 5}, "expected opt_level to be 0 to 4, but got 5"),
        ({"threads": 0}, "expected threads to be 1 to 256, but got 0"),
        ({"threads": True}, "expected threads to be 1 to 256, but got True"),
        ({"error_growth": "x"}, "expected error_growth to be at least 0, but got 'x'"),
        ({"shapes": {"x": 3}}, "input 'x': expected a tuple of whole numbers and names as its shape, but got 3"),
        ({"shapes": {"x": "4x64"}}, "a tuple of whole numbers and names as its shape, but got '4x64'"),
        ({"target": "pentium"}, "expected target to be one of"),
        ({"target": "aarch64"}, "expected code for x86_64 to run here"),
    ],
)
def test_wrong_options(path: Path, options: dict[str, Any], message: str):
    with pytest.raises(UserError, match=message):
        mlc.compile(path, **options)


def test_a_missing_file():
    with pytest.raises(UserError, match=r"nowhere\.onnx: No such file"):
        mlc.compile("nowhere.onnx")


def test_a_missing_directory():
    with pytest.raises(UserError, match="expected a directory"):
        mlc.load_executable("nowhere")


def test_results_that_are_inputs_or_weights(tmp_path: Path):
    text = """
    func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<2x2xf32>, tensor<4xf32>, tensor<4xf32>) {
      %w = graph.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
      %0 = graph.reshape %x : (tensor<4xf32>) -> tensor<2x2xf32>
      %1 = graph.add %x, %w : tensor<4xf32>
      return %1, %0, %w, %1 : tensor<4xf32>, tensor<2x2xf32>, tensor<4xf32>, tensor<4xf32>
    }"""
    (tmp_path / "m.mlir").write_text(text)
    x = np.array([5, 6, 7, 8], np.float32)
    w = np.array([1, 2, 3, 4], np.float32)
    for executor in ("aot", "steps", "graph"):
        exe = mlc.compile(tmp_path / "m.mlir", threads=1, executor=executor)
        first, second, third, fourth = exe({exe.inputs[0].name: x}).values()
        assert np.array_equal(first, x + w)
        assert np.array_equal(second, x.reshape(2, 2))
        assert np.array_equal(third, w)
        assert np.array_equal(fourth, x + w)


def test_warnings_of_kernels_are_told_once_and_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    from mlc.lowering.loop_to_llvm.convert import ConvertLoopToLLVMPass
    from mlc.support.errors import warn

    apply = ConvertLoopToLLVMPass.apply

    def warning(self: Any, ctx: Any, op: Any) -> None:
        for _ in range(2):
            warn(None, "too many registers")
        apply(self, ctx, op)

    monkeypatch.setattr(ConvertLoopToLLVMPass, "apply", warning)
    exe = mlc.compile(path, threads=1, cache=False)
    err = capfd.readouterr().err
    assert err.count("too many registers") == exe.report["kernels"]
    assert err.startswith("warning: kernel '")
    assert len(exe.report["warnings"]) == exe.report["kernels"]
    mlc.compile(path, threads=1, cache=False, opt_level=0)
    assert capfd.readouterr().err == ""


def test_validation_of_every_pass(path: Path, monkeypatch: pytest.MonkeyPatch):
    given = small_model.inputs()
    agree(mlc.compile(path, threads=1, validate_each=True)(given), given)

    from mlc.passes.loop.tiles.promote_tiles import PromoteTilesPass

    apply = PromoteTilesPass.apply

    def drops_a_store(self: Any, ctx: Any, op: Any) -> None:
        apply(self, ctx, op)
        stores = [inner for inner in op.walk() if inner.name == "loop.store"]
        stores[-1].detach()

    monkeypatch.setattr(PromoteTilesPass, "apply", drops_a_store)
    with pytest.raises(KernelCrash, match=r"a bug in mlc: kernel '\w+' .*pass 'loop-promote-tiles' changed @"):
        mlc.compile(path, threads=1, validate_each=True)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_bug_in_the_program_is_told_apart_from_those_in_kernels(
    path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    from mlc.lowering.main_to_llvm.convert import ConvertMainToLLVMPass

    def breaks(self: Any, ctx: Any, op: Any) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(ConvertMainToLLVMPass, "apply", breaks)
    with pytest.raises(KernelCrash, match=r"a bug in mlc: the program's function 'main' .*KeyError: 'oops'") as raised:
        mlc.compile(path, threads=threads, cache=False)
    assert not hasattr(raised.value, "reproducer")
