"""The vm's bytecode: bytes and back, text, versions, memory, and a model of known and of symbolic sizes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_model import inputs, write
from symbolic_models import PRODUCT

import mlc
from mlc.driver.models.load import parse_module
from mlc.driver.toolchain import LLVM
from mlc.frontends.common.model import Model
from mlc.runtime.symbolic import open_executable
from mlc.runtime.vm.encoding import Reader, Writer
from mlc.runtime.vm.executable import VmExecutable, vm_of
from mlc.runtime.vm.instructions import KINDS, read_code, write_code
from mlc.runtime.vm.memory import PAGE, WorkspaceBlocks
from mlc.runtime.vm.program import BadBytecode, decoded, encoded
from mlc.runtime.vm.text import disassembled
from mlc.support.errors import UserError
from mlc.support.weights import WeightStore

RNG = np.random.default_rng(3)


@pytest.fixture(scope="module")
def aot(tmp_path_factory: pytest.TempPathFactory) -> mlc.Executable:
    return mlc.compile(write(tmp_path_factory.mktemp("model")), executor="aot", threads=1, cache=False, opt_level=1)


@pytest.fixture
def vm(aot: mlc.Executable) -> VmExecutable:
    return vm_of(aot.artifact, 1, LLVM())


def test_values_survive_as_bytes():
    value = [0, -1, 300, -(1 << 70), "ä", None, True, False, b"\0\1", [[], {"a": [1], "b": {}}]]
    writer = Writer()
    writer.value(value)
    assert Reader(bytes(writer.data)).value() == value
    with pytest.raises(TypeError, match="expected a value of a vm program, but got float"):
        writer.value(1.5)


def test_every_instruction_survives_as_bytes():
    operands: dict[str, Any] = {"u": 5, "t": 1, "r": 2, "v": 130, "R": [0, 200], "V": [3], "n": ["+", 1, {"load": 2}]}
    code = [(kind.name, *(operands[what] for what in kind.operands)) for kind in KINDS]
    writer = Writer()
    write_code(writer, code)
    assert read_code(Reader(bytes(writer.data))) == code
    far = Writer()
    write_code(far, [("goto", 7)])
    with pytest.raises(ValueError, match="instruction 'goto' goes to 7, but there are 1"):
        read_code(Reader(bytes(far.data)))


def test_newer_damaged_and_other_bytes_are_refused():
    data = encoded({"name": "main"})
    assert decoded(data) == {"name": "main"}
    with pytest.raises(BadBytecode, match="expected vm bytecode of version 1 to 1, but got 9; use a newer mlc"):
        decoded(data[:6] + b"\x09\0" + data[8:])
    with pytest.raises(BadBytecode, match="its checksum is wrong"):
        decoded(data[:-1] + b"?")
    with pytest.raises(BadBytecode, match="but got other bytes"):
        decoded(b"\x7fELF")


def test_a_static_model_computes_what_aot_does(aot: mlc.Executable, vm: VmExecutable):
    given = inputs()
    wanted = aot(given)
    for _ in range(2):  # laid out, then again
        for name, array in vm(given).items():
            np.testing.assert_array_equal(array, wanted[name])
    hidden = np.zeros((4, 32), np.float32)
    assert vm(given, out={"hidden": hidden})["hidden"] is hidden
    np.testing.assert_array_equal(hidden, wanted["hidden"])


class Exported:
    """An array of another library, which exports its memory by DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: object) -> object:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> object:
        return self.array.__dlpack_device__()


def test_outputs_that_are_given_are_returned_and_others_refused(aot: mlc.Executable, vm: VmExecutable):
    given, hidden = inputs(), Exported(np.zeros((4, 32), np.float32))
    assert vm(given, {"hidden": hidden, "sum": None})["hidden"] is hidden
    np.testing.assert_array_equal(hidden.array, aot(given)["hidden"])
    for exe in (aot, vm):
        with pytest.raises(ValueError, match="expected outputs hidden, sum, but got an unknown output 'wrong'"):
            exe(given, {"wrong": hidden.array})
        with pytest.raises(ValueError, match="expected out as a dict of name -> array, but got list"):
            exe(given, [hidden.array])
        with pytest.raises(ValueError, match="expected inputs as a dict of name -> array, but got list"):
            exe([given["x"], given["y"]])


def test_tvms_names(aot: mlc.Executable, vm: VmExecutable):
    given = inputs()
    vm.set_input("main", given["x"], y=given["y"])
    results = vm.invoke("main")
    np.testing.assert_array_equal(results[1], aot(given)["sum"])
    assert vm.get_outputs()[0] is results[0]
    with pytest.raises(ValueError, match="expected the function 'main', but got 'f'"):
        vm.invoke("f")
    with pytest.raises(ValueError, match="expected inputs x, y, but got an unknown input 'z'"):
        vm.set_input(z=1)
    with pytest.raises(ValueError, match="but got 'x' in order and by name"):
        vm.set_input("main", given["x"], x=given["x"])
    with pytest.raises(ValueError, match="expected axis 0 of input 'x' to be 4, but got 5"):
        vm.invoke("main", np.zeros((5, 64), np.float32))


def test_the_text_shows_kernels_and_their_buffers(vm: VmExecutable):
    text = vm.disassemble()
    assert text == disassembled(vm.bytecode())
    assert text.startswith("vm program 'main', version 1\ninput x: 4x64 float32\n")
    assert "  0  run segment 0 'main', (r0, r1), (r2, r3)\n" in text
    assert "  v0 = input 0 + 0\n" in text
    assert "  0  call @dense_bias_add_relu" in text


def test_a_saved_static_model(vm: VmExecutable, tmp_path: Path):
    given = inputs()
    vm.save(tmp_path / "m")
    again = mlc.load_executable(tmp_path / "m")
    np.testing.assert_array_equal(again(given)["sum"], vm(given)["sum"])
    vm.save(tmp_path / "m")  # in the place of what was saved
    with pytest.raises(UserError, match="expected executor vm for a saved vm model, but got 'graph'"):
        mlc.load_executable(tmp_path / "m", executor="graph")
    (tmp_path / "m/program.vm").write_bytes(b"mlcvm\0\2\0")
    with pytest.raises(UserError, match="m: expected vm bytecode of version 1 to 1, but got 2"):
        mlc.load_executable(tmp_path / "m")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").touch()
    with pytest.raises(UserError, match="to be empty or a saved vm model"):
        vm.save(tmp_path / "other")


def test_symbolic_sizes():
    exe = mlc.compile(Model(parse_module(PRODUCT), WeightStore()), threads=1, cache=False, opt_level=1)
    vm = open_executable(exe.artifact, 1, "vm", LLVM())
    w = RNG.standard_normal((50, 40)).astype(np.float32)
    for rows in (3, 17, 3):
        given = dict(zip(("input0", "input1"), (RNG.standard_normal((rows, 40)).astype(np.float32), w), strict=True))
        np.testing.assert_array_equal(vm(given)["output0"], exe(given)["output0"])


def test_memory_is_taken_from_a_pool_within_a_limit(aot: mlc.Executable):
    pool = WorkspaceBlocks(8 * PAGE)
    first = pool.take(PAGE + 1)
    assert len(first) == 2 * PAGE
    pool.give(first)
    assert pool.take(2 * PAGE) is first
    with pytest.raises(UserError, match="expected the model to need at most 32768 bytes of memory at once"):
        pool.take(7 * PAGE)
    assert (pool.taken, pool.most) == (2 * PAGE, 2 * PAGE)
    small = vm_of(aot.artifact, 1, LLVM(), memory_limit=1)
    with pytest.raises(UserError, match="at most 1 bytes of memory at once, but it needs 4096"):
        small(inputs())
