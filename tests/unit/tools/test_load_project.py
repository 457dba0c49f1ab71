"""`--load FOLDER`: a project's entry points - passes, dialects, ops, strategies, targets - without an installation."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

ROOT = Path(__file__).parents[3]

PROJECT = """[project]
name = "my-things"
version = "1.0"
entry-points."mlc.passes".my-twice = "my_things.code:TwicePass"
entry-points."mlc.dialects".hello = "my_things.code:HELLO"
entry-points."mlc.ops"."my.twice" = "my_things.ops:TwiceOp"
entry-points."mlc.targets".my-cpu = "my_things:MACHINE"
"""
CODE = '''
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition
from xdsl.passes import ModulePass

from mlc.dialects.graph import AddOp, ReluOp
from mlc.passes.rewriting import Rules, apply_rules

RULES = Rules()


@RULES.on(ReluOp)
def twice(op, rw):
    """`relu(x) -> x + x`."""
    return rw.make(AddOp, op.operands[0], op.operands[0])


class TwicePass(ModulePass):
    name = "my-twice"

    def apply(self, ctx, op):
        apply_rules(op, RULES)


@irdl_op_definition
class WorldOp(IRDLOperation):
    name = "hello.world"
    assembly_format = "attr-dict"


HELLO = Dialect("hello", [WorldOp])
'''
OPS = """
from mlc import te
from mlc.dialects.graph.base import GraphOp
from mlc.frontends.onnx import register_op
from mlc.lowering.graph_to_te.table import lowering


class TwiceOp(GraphOp):
    name = "my.twice"

    def infer_types(self):
        return [self.input_types[0]]


@lowering(TwiceOp)
def twice(op, x):
    return te.compute(x.shape, lambda *i: x[i] * 2.0, "twice")


register_op("Twice", lambda node: node.emit(TwiceOp, node.input(0)), domain="my.ops")
"""
MACHINE = """triple = "x86_64-unknown-linux-gnu"
core_from = "zen5"
[cpus.mine]
llvm_cpu = "x86-64-v3"
vector_bits = 256
vector_registers = 16
masked_memory = false
fma = true
instructions = ["pmaddwd"]
l1_bytes = 32_768
l2_bytes = 524_288
l3_bytes = 4_194_304
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    package = tmp_path / "project" / "my_things"
    package.mkdir(parents=True)
    (tmp_path / "project" / "pyproject.toml").write_text(PROJECT)
    (package / "__init__.py").write_text(
        'from pathlib import Path\n\nMACHINE = Path(__file__).with_name("machine.toml")\n'
    )
    (package / "code.py").write_text(CODE)
    (package / "ops.py").write_text(OPS)
    (package / "machine.toml").write_text(MACHINE)
    return tmp_path


def run(here: Path, *words: str, path: str = "") -> tuple[int, str, str]:
    """Run a module's command in a process of its own; exit code, output, errors."""
    environment = {**os.environ, "PYTHONPATH": f"{path}:{ROOT}", "MLC_CACHE_DIR": str(here / "cache")}
    command = [sys.executable, "-m", *words]
    done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def install(here: Path, editable: bool) -> str:
    """Write what pip writes for the project; the path that Python needs."""
    info = here / "site" / "my_things-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-things\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[mlc.passes]\nmy-twice = my_things.code:TwicePass\n"
        "[mlc.dialects]\nhello = my_things.code:HELLO\n"
        "[mlc.ops]\nmy.twice = my_things.ops:TwiceOp\n"
        "[mlc.targets]\nmy-cpu = my_things:MACHINE\n"
    )
    if editable:
        (info / "direct_url.json").write_text(json.dumps({"url": "file:///x", "dir_info": {"editable": True}}))
    return f"{here / 'site'}:{here / 'project'}"


def model(here: Path) -> None:
    """Relu, then an op of the project's."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy")
    nodes = [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Twice", ["h"], ["y"], domain="my.ops")]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("my.ops", 1)]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=opsets), here / "net.onnx")
    np.save(here / "x.npy", np.array([-1, 0, 1, 2], np.float32))


RUN = ("mlc.tools.cli", "run", "net.onnx", "--input", "x=x.npy", "--output-dir", "out", "--threads", "1")


@pytest.mark.parametrize("installed", [False, True])
def test_a_project_is_used_loaded_or_installed(here: Path, installed: bool) -> None:
    model(here)
    path = install(here, editable=False) if installed else ""
    load = [] if installed else ["--load", "project"]
    code, _, err = run(here, *RUN, *load, "--insert", "before graph-fuse-ops=my-twice", "--target", "my-cpu", path=path)
    assert (code, err) == (0, "")
    np.testing.assert_allclose(np.load(here / "out" / "y.npy"), [-4, 0, 4, 8])
    (here / "text.mlir").write_text(
        "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n  hello.world\n"
        "  %0 = my.twice %x : tensor<4xf32>\n  func.return %0 : tensor<4xf32>\n}\n"
    )
    code, out, err = run(here, "mlc.tools.mlc_opt", "text.mlir", *load, path=path)
    assert (code, err) == (0, "")
    assert "hello.world" in out
    assert "my.twice %x" in out


def test_the_cache_sees_edits_of_what_is_edited(here: Path) -> None:
    model(here)
    ops = here / "project" / "my_things" / "ops.py"

    def result(*load: str, path: str = "") -> list[float]:
        code, _, err = run(here, *RUN, *load, path=path)
        assert (code, err) == (0, "")
        return np.load(here / "out" / "y.npy").tolist()

    assert result("--load", "project") == [0, 0, 2, 4]
    kept = len(list((here / "cache" / "models").iterdir()))
    assert kept == 1  # what a project adds is a part of the key, so its models are kept
    ops.write_text(OPS.replace("x[i] * 2.0", "x[i] * 3.0"))
    assert result("--load", "project") == [0, 0, 3, 6]
    path = install(here, editable=True)
    assert result(path=path) == [0, 0, 3, 6]
    ops.write_text(OPS.replace("x[i] * 2.0", "x[i] * 5.0"))
    assert result(path=path) == [0, 0, 5, 10]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot load the folder: expected a pyproject.toml in it"),
        ("[project]\nname = 'x'\n", "expected entry points of mlc"),
        ("[project\n", "Expected ']'"),
        ("project = 3", "expected entry points of mlc"),
        ("[project]\nentry-points = 'x'", "expected entry points of mlc"),
        ("[project]\n[project.entry-points]\n'mlc.passes' = 'x'", "expected a table of names and texts in mlc.passes"),
        ("[project]\n[project.entry-points.'mlc.passes']\nx = 3", "expected a table of names and texts in mlc.passes"),
        (PROJECT.replace("ops:TwiceOp", "ops:twice"), "op 'my.twice': expected its entry point to name the class"),
        (PROJECT.replace("my_things.ops:TwiceOp", "no module"), "op 'my.twice' cannot be imported"),
        (PROJECT.replace("my_things.ops", "my_things.op"), "op 'my.twice' cannot be imported: No module named"),
    ],
)
def test_a_wrong_project_is_refused(here: Path, text: str | None, message: str) -> None:
    model(here)
    if text is None:
        (here / "project" / "pyproject.toml").unlink()
    else:
        (here / "project" / "pyproject.toml").write_text(text)
    code, _, err = run(here, *RUN, "--load", "project")
    assert code == 1
    assert message in err
    assert "project" in err or "op 'my.twice'" in err
    assert "Traceback" not in err


def test_files_that_import_each_other_share_their_classes(here: Path) -> None:
    (here / "shapes.py").write_text(
        "from xdsl.ir import Dialect\nfrom xdsl.irdl import IRDLOperation, irdl_op_definition\n\n"
        '@irdl_op_definition\nclass SquareOp(IRDLOperation):\n    name = "shapes.square"\n'
        '    assembly_format = "attr-dict"\n\nSHAPES = Dialect("shapes", [SquareOp])\n'
    )
    (here / "erase.py").write_text(
        "from xdsl.passes import ModulePass\n\nfrom shapes import SquareOp\n\n"
        'class ErasePass(ModulePass):\n    name = "erase-squares"\n\n    def apply(self, ctx, op):\n'
        "        for one in [one for one in op.walk() if isinstance(one, SquareOp)]:\n            one.detach()\n"
    )
    (here / "text.mlir").write_text("shapes.square\n")
    load = ("--load", "shapes.py", "--load", "erase.py")
    code, out, err = run(here, "mlc.tools.mlc_opt", "text.mlir", *load, "-p", "erase-squares", path=str(here))
    assert (code, err) == (0, "")
    assert "shapes.square" not in out
