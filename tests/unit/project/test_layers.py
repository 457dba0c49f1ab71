"""The table of layers holds: no room imports one that its row does not name, and the table has no circle."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np

import mlc

ROOT = Path(__file__).parents[3]
SPEC = importlib.util.spec_from_file_location("layers", ROOT / "docs" / "layers.py")
assert SPEC is not None
assert SPEC.loader is not None
layers = importlib.util.module_from_spec(SPEC)
sys.modules["layers"] = layers
SPEC.loader.exec_module(layers)

WITHOUT_COMPILER = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("xdsl", "llvmlite", "onnx"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())
import numpy as np
from mlc.runtime.executable import load_executable

for executor in ("aot", "graph", "steps"):
    exe = load_executable(sys.argv[1], threads=2, executor=executor)
    inputs = dict(np.load(sys.argv[2]))
    (result,) = exe(inputs).values()
np.save(sys.argv[3], result)
profile = exe.profile(inputs, repeat=2)
assert profile.machine.gflops > 0 and profile.events and len(profile.kernels) >= 1
assert str(profile) and profile.to_json()
profile.plot(sys.argv[3] + ".svg")
profile.save_trace(sys.argv[3] + ".json")
try:
    exe.export(sys.argv[3] + ".so")
except ValueError as error:
    assert "expected the compiler to export a library" in str(error)
else:
    raise AssertionError("exported without a compiler")
loaded = [name for name in sys.modules if name.startswith("mlc.")]
rooms = {name.split(".")[1] for name in loaded}
assert rooms <= {"runtime", "support", "targets", "moved"}, rooms
"""


def test_the_rooms_are_the_links_of_mlc():
    assert set(layers.ROOMS) == {path.name for path in (ROOT / "mlc").iterdir() if path.is_symlink()}


def test_the_table_has_no_circle():
    done: list[str] = []
    for room in layers.ROOMS:
        assert layers.allowed(room) - {room} <= set(done), f"{room} may import a room that stands below it in the table"
        done.append(room)


def test_no_import_is_outside_the_table():
    wrong = [str(one) for one in layers.imports() if one.target not in layers.allowed(one.room)]
    assert wrong == []


def test_the_reader_sees_every_kind_of_import(tmp_path, monkeypatch):
    text = '''"""Names mlc.driver in words."""
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from mlc.passes.rewriting import Rewriter
def late():
    import mlc.tools.cli
    from mlc import codegen
    return import_module("mlc.driver.operator.build:build")
'''
    (tmp_path / "support").mkdir()
    (tmp_path / "support" / "a.py").write_text(text)
    monkeypatch.setattr(layers, "ROOT", tmp_path)
    monkeypatch.setattr(layers, "ROOMS", ("support",))
    found = [(one.line, one.target) for one in layers.imports()]
    assert found == [(4, "passes"), (6, "tools"), (7, "codegen"), (8, "driver")]


def test_the_readme_draws_the_table():
    readme = (ROOT / "README.md").read_text()
    assert layers.drawn(readme) == readme, "run python docs/generate.py"


def test_every_package_says_what_it_holds():
    poor = []
    for room in layers.ROOMS:
        for path in sorted((ROOT / room).rglob("__init__.py")):
            doc = layers.ast.get_docstring(layers.ast.parse(path.read_text())) or ""
            if len(doc) < 40:
                poor.append(str(path.relative_to(ROOT)))
    assert poor == []


def test_no_folder_holds_more_than_25_files():
    folders = {path.parent for room in layers.ROOMS for path in (ROOT / room).rglob("*.py")}
    assert {str(f.relative_to(ROOT)): n for f in folders if (n := len(list(f.glob("*.py")))) > 25} == {}


def test_a_saved_model_runs_without_the_compiler(tmp_path):
    exe = mlc.compile(ROOT / "examples" / "mlp.mlir", threads=2)
    rng = np.random.default_rng(0)
    inputs = {spec.name: rng.standard_normal(spec.shape).astype(spec.dtype) for spec in exe.inputs}
    (wanted,) = exe(inputs).values()
    exe.save(tmp_path / "saved")
    np.savez(tmp_path / "in.npz", **inputs)
    command = [sys.executable, "-c", WITHOUT_COMPILER, *(str(tmp_path / n) for n in ("saved", "in.npz", "out.npy"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), wanted)
    assert (tmp_path / "out.npy.svg").stat().st_size > 1000
