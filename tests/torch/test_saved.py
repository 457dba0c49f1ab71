"""The .pt2 files of torch.export.save: what they compute, what is refused, and that nothing in them runs."""

import json
import os
import pickle
import random
import re
import zipfile
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch frontend need torch")

from eager import check, eager, fed  # noqa: E402
from test_outputs import CASES, Returns  # noqa: E402
from torch import nn  # noqa: E402
from torch.export import Dim, export, save  # noqa: E402

import mlc  # noqa: E402
from mlc.driver.models import compile as driver  # noqa: E402
from mlc.driver.models import file_key  # noqa: E402
from mlc.frontends.torch.saved.program import load_program  # noqa: E402
from mlc.support.errors import UserError  # noqa: E402
from mlc.tools.cli import run  # noqa: E402


class Stored(nn.Module):
    """Weights of each kind: shared, expanded, transposed, empty, narrow, constants, a buffer that is not saved."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.register_buffer("row", torch.randn(8).expand(3, 8))
        self.register_buffer("turned", torch.randn(8, 4).t())
        self.register_buffer("tail", torch.arange(10.0)[2:])
        self.register_buffer("empty", torch.zeros(3, 0))
        self.register_buffer("narrow", torch.randn(3).bfloat16())
        self.register_buffer("unsaved", torch.randn(8), persistent=False)
        self.constant = torch.tensor([[2], [3], [-1]])

    def forward(self, x, more):
        y = self.second(self.first(x).relu()) + self.row + self.tail * self.unsaved
        y = torch.cat([y * self.constant, self.empty], 1)
        return {"y": y @ self.turned.t(), "more": (more["k"][0] + 1, y.sum(1) * self.narrow.float())}


def stored_inputs():
    return torch.randn(3, 8), {"k": [torch.randn(2)]}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A module, its inputs, and its file."""
    torch.manual_seed(7)
    module, path = Stored().eval(), tmp_path_factory.mktemp("saved") / "stored.pt2"
    inputs = stored_inputs()
    save(export(module, inputs), path)
    return module, inputs, path


@pytest.mark.parametrize("kind", [str, Path])
def test_values(stored, kind):
    module, (x, more), path = stored
    wanted, given = eager(module, (x, more)), (x, more["k"][0])
    model = mlc.load(kind(path))
    assert model.inputs == ("x", "more_k_0")
    check(fed(mlc.compile(model, threads=1), given), wanted)
    check(fed(mlc.compile(kind(path), threads=1), given), wanted)


@torch.no_grad()
@pytest.mark.parametrize("name", ["nested", "mapped in a tuple", "plain", "cache", "tensors", "pair"])
def test_structures(name, tmp_path):
    function, named = CASES[name]
    module, x = Returns(function).eval(), torch.randn(2, 4)
    mlc.from_torch(module, (x,))  # which makes dataclasses known
    if name == "pair":
        torch.utils._pytree._register_namedtuple(type(function(x)["both"]), serialized_type_name="test_outputs.Pair")
    save(export(module, (x,)), tmp_path / "model.pt2")
    check(fed(mlc.compile(tmp_path / "model.pt2", threads=1), (x,)), named(module(x)))


def test_a_class_that_cannot_be_imported_leaves_its_names(tmp_path):
    save(export(Returns(CASES["nested"][0]).eval(), (torch.randn(2, 4),)), tmp_path / "model.pt2")

    def renamed(program):
        return json.loads(json.dumps(program).replace("test_outputs.", "nowhere."))

    changed(tmp_path / "model.pt2", tmp_path / "other.pt2", renamed)
    names = ("logits", "encoder.last_hidden_state", "encoder.hidden_states_0")
    assert mlc.load(tmp_path / "other.pt2").outputs == names


def test_the_command_line(stored, tmp_path, capsys):
    module, (x, more), path = stored
    assert run(["compile", str(path), "-o", str(tmp_path / "out")]) == 0
    given = x, more["k"][0]
    check(fed(mlc.load_executable(tmp_path / "out"), given), eager(module, (x, more)))
    assert run(["check", str(path)]) == 0
    (tmp_path / "junk.pt2").write_bytes(b"junk")
    capsys.readouterr()
    assert run(["compile", str(tmp_path / "junk.pt2"), "-o", str(tmp_path / "none.so")]) == 1
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_files_are_cached_by_their_bytes(stored, tmp_path, monkeypatch):
    module, (x, more), path = stored
    monkeypatch.setenv("MLC_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "same.pt2").write_bytes(path.read_bytes())
    first = mlc.compile(path, threads=1)
    loaded = []
    load = driver.load_model
    monkeypatch.setattr(driver, "load_model", lambda *given, **more: loaded.append(given[0]) or load(*given, **more))
    again = mlc.compile(tmp_path / "same.pt2", threads=1)
    assert not loaded
    check(fed(again, (x, more["k"][0])), {k: torch.from_numpy(v) for k, v in fed(first, (x, more["k"][0])).items()})
    with torch.no_grad():
        module.first.bias.add_(1)
    save(export(module, (x, more)), tmp_path / "same.pt2")
    wanted = eager(module, (x, more))
    with torch.no_grad():
        module.first.bias.sub_(1)
    check(fed(mlc.compile(tmp_path / "same.pt2", threads=1), (x, more["k"][0])), wanted)
    assert loaded
    monkeypatch.setattr(file_key, "version_of", lambda name: f"other {name}")
    loaded.clear()
    mlc.compile(path, threads=1)
    assert loaded


class Longer(nn.Module):
    def forward(self, x, y):
        return x * 2 if x.shape[1] > y["k"].shape[1] and x.shape[1] % 2 == 0 else x


@pytest.mark.parametrize("reader", [torch.export.load, lambda path: path])
def test_conditions_on_sizes_outlive_the_file(tmp_path, reader):
    x, y = torch.randn(3, 6), {"k": torch.randn(3, 4)}
    program = export(Longer(), (x, y), dynamic_shapes=({1: Dim.AUTO}, {"k": {0: Dim.STATIC, 1: Dim.STATIC}}))
    save(program, tmp_path / "longer.pt2")
    exe = mlc.compile(reader(tmp_path / "longer.pt2"), threads=1)
    wide = torch.randn(3, 10)
    check(fed(exe, (wide, y["k"])), {"output": wide * 2})
    for columns in (4, 7):  # of which eager returns what it was given
        with pytest.raises(ValueError, match=r"expected axis 1 of input 'x' \(x_1\) from 6 on in steps of 2"):
            fed(exe, (torch.randn(3, columns), y["k"]))


def test_sizes_left_open_are_given(tmp_path):
    program = export(nn.Linear(8, 4), (torch.randn(3, 8),), dynamic_shapes={"input": {0: Dim("batch", max=64)}})
    save(program, tmp_path / "open.pt2")
    assert mlc.compile(tmp_path / "open.pt2", shapes={"input": (5, 8)}, threads=1).outputs[0].shape == (5, 4)
    x = torch.randn(7, 8)
    check(fed(mlc.compile(tmp_path / "open.pt2", threads=1), (x,)), eager(program.module(), (x,)))


class Program:
    """An object that holds a program, as torch.onnx.ONNXProgram does, or returns it, as executorch's managers do."""

    def __init__(self, program, name, called):
        if called:
            setattr(self, name, lambda key="forward": program)
        else:
            setattr(self, name, program)


@pytest.mark.parametrize("name", ["exported_program", "program"])
@pytest.mark.parametrize("called", [False, True])
def test_objects_that_hold_a_program(name, called):
    x = torch.randn(3, 8)
    program = export(nn.Linear(8, 4), (x,))
    holder = Program(program, name, called)
    assert mlc.load(holder).inputs == ("input",)
    check(fed(mlc.compile(holder, threads=1), (x,)), eager(program.module(), (x,)))


def test_objects_that_hold_no_program():
    holder = Program(None, "program", False)
    holder.exported_program = lambda key: key
    with pytest.raises(UserError, match=r"expected Program.exported_program\(\) to need no arguments"):
        mlc.load(holder)
    with pytest.raises(UserError, match=r"expected a torch.export program, but got Linear; call mlc.from_torch"):
        mlc.load(nn.Linear(3, 3))


def changed(source, target, program=None, records=None, drop=(), compression=zipfile.ZIP_STORED):
    """A copy of a file with its program changed by a function, and records replaced, added or left out."""
    records = dict(records or {})
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", compression) as new:
        for info in old.infolist():
            folder, _, name = info.filename.partition("/")
            data = records.pop(name, None) or old.read(info)
            if name == "models/model.json" and program is not None:
                described = json.loads(data)
                data = json.dumps(program(described) or described).encode()
            if name not in drop:
                new.writestr(f"{folder}/{name}", data)
        for name, data in records.items():
            new.writestr(f"{folder}/{name}", data)
    return target


class Bomb:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


def renamed_node(program, code):
    text = json.dumps(program).replace('"linear"', json.dumps(code))
    return json.loads(text)


def put(program, path, value):
    """Replace a value inside the program."""
    *steps, last = path
    for step in steps:
        program = program[step]
    program[last] = value


GRAPH = ("graph_module", "graph")
OUT = ("graph_module", "module_call_graph", 0, "signature", "out_spec")


def with_size(program, text):
    sizes = program["graph_module"]["graph"]["tensor_values"]["linear"]["sizes"]
    sizes[0] = {"as_expr": {"expr_str": text, "hint": {"as_int": 3}}}


def with_structure(kind, context):
    def change(program, code):
        count = len(program["graph_module"]["graph"]["outputs"])
        leaf = {"type": None, "context": None, "children_spec": []}
        put(program, OUT, json.dumps([1, {"type": kind, "context": context, "children_spec": [leaf] * count}]))

    return change


CODE = "__import__('os').mkdir({marker!r})"
ATTACKS = {
    "size": (lambda p, code: with_size(p, code), "expected an expression of sizes, but it holds"),
    "text in a size": (lambda p, code: with_size(p, f"Add({code!r}, 1)"), "expected an expression of sizes"),
    "symbol": (lambda p, code: with_size(p, f"Symbol({code!r})"), "expected a symbol or a number"),
    "name": (lambda p, code: renamed_node(p, f"linear={code}"), "expected a name as name"),
    "weight": (
        lambda p, code: put(
            p, ("graph_module", "signature", "input_specs", 0, "parameter", "parameter_name"), f'x"+{code}+"'
        ),
        "expected a name as parameter_name",
    ),
    "module": (
        lambda p, code: put(p, ("graph_module", "module_call_graph", 0, "fqn"), f'x", {code}, "'),
        "expected a name as fqn",
    ),
    "file": (
        lambda p, code: put(p, (*GRAPH, "nodes", 0, "target"), "torch.ops.aten.from_file.default"),
        r"linear: torch.ops.aten.from_file.default",
    ),
    "function": (lambda p, code: put(p, (*GRAPH, "nodes", 0, "target"), "torch.hub.load"), "linear: torch.hub.load"),
    "operator": (
        lambda p, code: put(p, (*GRAPH, "nodes", 0, "inputs", 0, "arg"), {"as_operator": "torch.hub.load"}),
        "as_operator: torch.hub.load",
    ),
    "object": (
        lambda p, code: put(
            p, (*GRAPH, "nodes", 0, "inputs", 0, "arg"), {"as_custom_obj": {"name": "x", "class_fqn": "a.B"}}
        ),
        "holds an object of the class 'a.B', which mlc never loads",
    ),
    "condition": (
        lambda p, code: put(p, ("guards_code",), [code]),
        None,
    ),
    "verifier": (lambda p, code: put(p, ("verifiers",), ["os.mkdir"]), "expected a program of torch.export.save"),
    "enumeration": (
        with_structure("builtins.dict", json.dumps([{"__enum__": True, "fqn": "unimported:X", "name": "y"}])),
        "expected keys of a dict that are text or numbers",
    ),
    "factory": (
        with_structure(
            "collections.defaultdict",
            {"default_factory_module": "unimported", "default_factory_name": "x", "dict_context": ["a"]},
        ),
        None,
    ),
    "class": (with_structure("unimported.Class", json.dumps({"__enum__": 1, "fqn": "unimported:X"})), None),
}


@pytest.fixture(scope="module")
def linear(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "linear.pt2"
    save(export(nn.Linear(8, 4), (torch.randn(3, 8),)), path)
    return path


@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_of_a_file_runs(name, linear, tmp_path, monkeypatch):
    attack, message = ATTACKS[name]
    marker = tmp_path / "ran"
    (tmp_path / "unimported.py").write_text(f"import os\nos.mkdir({str(marker)!r})\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    code = CODE.format(marker=str(marker))
    path = changed(linear, tmp_path / "attack.pt2", lambda program: attack(program, code))
    if message is None:
        check(fed(mlc.compile(path, threads=1), (x := torch.ones(3, 8),)), _linear(linear, x, path))
    else:
        with pytest.raises(UserError, match=message) as caught:
            mlc.compile(path, threads=1)
        assert str(path) in str(caught.value)
    assert not marker.exists()


def _linear(source, x, path):
    """What eager computes, by the names that the changed file has."""
    (name,) = mlc.load(path).outputs
    return {name: torch.export.load(source).module()(x).detach()}


def test_conditions_of_open_sizes_are_not_run(tmp_path):
    marker = tmp_path / "ran"
    program = export(nn.ReLU(), (torch.randn(3, 8),), dynamic_shapes=({0: Dim("batch", max=64)},))
    save(program, tmp_path / "open.pt2")
    code = CODE.format(marker=str(marker))
    for text in (code, f"L['input'].size()[{code}] > 1", "L['other'].size()[0] > 1", "L['input'].size()[7] > 1"):
        changed(tmp_path / "open.pt2", tmp_path / "bad.pt2", lambda p, text=text: put(p, ("guards_code",), [text]))
        with pytest.raises(UserError, match=r"torch.export took for granted that .* which mlc cannot check"):
            mlc.load(tmp_path / "bad.pt2")
    assert not marker.exists()


def test_pickles_are_not_loaded(linear, tmp_path):
    marker = tmp_path / "ran"
    bomb = pickle.dumps(Bomb(marker))
    path = changed(linear, tmp_path / "inputs.pt2", records={"data/sample_inputs/model.pt": bomb})
    assert mlc.load(path).inputs == ("input",)
    config = {"weight": {"path_name": "weight_0", "is_param": True, "use_pickle": True, "tensor_meta": None}}
    records = {
        "data/weights/weight_0": bomb,
        "data/weights/model_weights_config.json": json.dumps({"config": config}).encode(),
    }
    path = changed(linear, tmp_path / "weights.pt2", records=records)
    with pytest.raises(UserError, match="expected 'weight' to be a plain tensor, but it is a pickled object"):
        mlc.load(path)
    path = changed(linear, tmp_path / "legacy.pt2", records={"data/weights/model.pt": bomb})
    mlc.load(path)
    assert not marker.exists()


def weights_changed(linear, target, **meta):
    """A copy whose first weight is said to be of other facts."""
    with zipfile.ZipFile(linear) as archive:
        name = next(n for n in archive.namelist() if n.endswith("weights_config.json"))
        config = json.loads(archive.read(name))
    one = config["config"]["weight"]
    one["tensor_meta"] |= meta
    return changed(linear, target, records={name.partition("/")[2]: json.dumps(config).encode()})


def sizes(*numbers):
    return [{"as_int": number} for number in numbers]


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ({"sizes": sizes(1 << 40, 8)}, "'weight': expected a shape that fits 128 bytes"),
        ({"sizes": sizes(5, 8)}, "'weight': expected a shape that fits 128 bytes"),
        ({"sizes": sizes(1 << 62, 1 << 62), "strides": sizes(0, 0)}, "'weight': expected a shape that fits 128 bytes"),
        ({"sizes": sizes(-4, 8)}, "'weight': expected sizes and strides that are numbers from 0 on"),
        ({"sizes": [{"as_expr": {"expr_str": "s0"}}]}, "'weight': expected sizes and strides that are numbers"),
        ({"strides": sizes(8)}, "'weight': expected a shape that fits"),
        ({"storage_offset": {"as_int": 1}}, "'weight': expected a shape that fits 128 bytes"),
        ({"dtype": 99}, "expected an element type of torch for 'weight', but got 99"),
        ({"device": {"type": "cuda", "index": 0}}, "expected tensors on the CPU, but 'weight' is not"),
    ],
)
def test_weights_that_do_not_fit(linear, tmp_path, meta, message):
    with pytest.raises(UserError, match=message):
        mlc.load(weights_changed(linear, tmp_path / "bad.pt2", **meta))


def script(path):
    torch.jit.script(nn.ReLU()).save(str(path))


def renamed(linear, path):
    with zipfile.ZipFile(linear) as old, zipfile.ZipFile(path, "w") as new:
        for info in old.infolist():
            new.writestr(info.filename.replace("linear/models/model", "linear/data/aotinductor/model"), old.read(info))


def twice(linear, path):
    path.write_bytes(linear.read_bytes())
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr("linear/models/model.json", b"{}")


FILES = {
    "empty": (lambda linear, path: path.write_bytes(b""), "no such archive"),
    "text": (lambda linear, path: path.write_text("a model"), "no such archive"),
    "directory": (lambda linear, path: path.mkdir(), "expected a regular file, but got a directory"),
    "missing": (lambda linear, path: None, "No such file"),
    "weights": (lambda linear, path: torch.save({"w": torch.ones(2)}, path), "found no program in it"),
    "script": (lambda linear, path: script(path), "found no program in it"),
    "native": (renamed, "expected an exported program, but got one that AOTInductor compiled"),
    "compressed": (
        lambda linear, path: changed(linear, path, compression=zipfile.ZIP_DEFLATED),
        "it is compressed or encrypted",
    ),
    "twice": (twice, "expected records of different names in one folder"),
    "old": (
        lambda linear, path: zipfile.ZipFile(path, "w").writestr("serialized_exported_program.json", b"{}"),
        "expected a file of torch 2.8 or newer",
    ),
    "two programs": (
        lambda linear, path: changed(linear, path, records={"models/other.json": b"{}"}),
        "expected one program, but got 2: model, other",
    ),
    "no table": (
        lambda linear, path: changed(linear, path, drop=("data/weights/model_weights_config.json",)),
        "expected a record 'data/weights/model_weights_config.json'",
    ),
    "no weight": (
        lambda linear, path: changed(linear, path, drop=("data/weights/weight_0",)),
        "expected a record 'data/weights/weight_0'",
    ),
    "no JSON": (
        lambda linear, path: changed(linear, path, records={"models/model.json": b"["}),
        "expected JSON in 'models/model.json'",
    ),
    "nested": (
        lambda linear, path: changed(linear, path, records={"models/model.json": b"[" * 100000}),
        "expected JSON in 'models/model.json'",
    ),
    "other JSON": (
        lambda linear, path: changed(linear, path, records={"models/model.json": b'{"graph_module": 3}'}),
        "expected a program of torch.export.save",
    ),
    "version": (
        lambda linear, path: changed(linear, path, lambda p: put(p, ("schema_version", "major"), 99)),
        "expected a program of torch.export.save that torch .* reads, but got SerializeError",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_refused(name, linear, tmp_path):
    make, message = FILES[name]
    path = tmp_path / "bad.pt2"
    make(linear, path)
    with pytest.raises(UserError, match=message) as caught:
        mlc.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_truncated_and_mutated_files_are_refused_or_load(linear, tmp_path):
    data, rng = linear.read_bytes(), random.Random(3)
    path = tmp_path / "bad.pt2"
    for length in range(0, len(data), 500):
        path.write_bytes(data[:length])
        with pytest.raises(UserError):
            mlc.load(path)
    with zipfile.ZipFile(linear) as archive:
        program = archive.read("linear/models/model.json").decode()
    words = re.findall(r'"[^"]*"|-?\d+|\[|\{', program)
    refused = 0
    for _ in range(60):
        word = rng.choice(words)
        place = rng.choice([found.start() for found in re.finditer(re.escape(word), program)])
        other = rng.choice([*words, "-1", "null", "{}", "[]", '"' + "x" * 9 + '"'])
        text = program[:place] + other + program[place + len(word) :]
        changed(linear, path, records={"models/model.json": text.encode()})
        try:
            mlc.load(path)
        except UserError:
            refused += 1
    assert refused > 20


def test_a_file_without_torch(linear, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch.export", None)
    with pytest.raises(UserError, match=r"expected torch to be installed, which reads .pt2 files"):
        mlc.load(linear)


def test_weights_are_mapped_and_the_file_is_never_written(linear, tmp_path):
    path = tmp_path / "copy.pt2"
    path.write_bytes(linear.read_bytes())
    program = load_program(path).program
    weight = program.state_dict["weight"]
    assert weight.untyped_storage().nbytes() == path.stat().st_size
    with torch.no_grad():
        weight.zero_()
    assert path.read_bytes() == linear.read_bytes()
