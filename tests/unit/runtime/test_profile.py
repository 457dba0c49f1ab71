"""Profiles: what they say of a kernel, and how they are shown."""

import json
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import small_model

import mlc
from mlc.driver.host import Level, Machine, measure_bandwidth, measure_machine
from mlc.runtime.profile import Event, KernelProfile, Profile
from mlc.runtime.report.roofline import Roofline
from mlc.runtime.reuse import memory_seconds, place_of, reuse_distances, size_of
from mlc.support.errors import UserError
from mlc.tools import cli

MACHINE = Machine(2, 100.0, (Level("L2", 1000, 50.0), Level("L3", 10_000, 20.0), Level("DRAM", 1 << 62, 5.0)))
SVG = "{http://www.w3.org/2000/svg}"


def kernel(name: str = "conv", microseconds: float = 10.0, gflops: float = 80.0, **facts: Any) -> KernelProfile:
    seconds = microseconds * 1e-6
    flops = int(gflops * 1e9 * seconds)
    given = {"bytes": 4000, "origins": ("n0",), "schedule": "contraction: conv 14x32", "memory_seconds": {"L2": 8e-7}}
    return KernelProfile(name, seconds, flops, compute_seconds=flops / 1e11, **(given | facts))


@pytest.fixture
def profile() -> Profile:
    rows = [
        kernel("conv", 10),
        kernel("copy", 5, gflops=0, bytes=20_000, memory_seconds={"L2": 1e-7, "L3": 1e-6}, schedule="injective: y 16"),
        kernel("conv", 30, origins=("n1", "n2")),
        kernel("tiny", 0.01, gflops=1),
    ]
    events = [Event(0, -1, 0, 1000, 2000), Event(0, 0, 0, 1100, 1900), Event(0, 1, 1, 1200, 1950)]
    return Profile(rows, MACHINE, events)


@pytest.fixture(scope="module")
def exe(tmp_path_factory: pytest.TempPathFactory) -> mlc.Executable:
    return mlc.compile(small_model.write(tmp_path_factory.mktemp("model")), threads=2)


# --- figures ---


def test_the_bound_is_what_takes_longest():
    row = kernel(gflops=80)
    assert (row.bound, round(row.percent_of_peak), round(row.percent_of_bandwidth)) == ("compute", 80, 8)
    row = kernel(gflops=1, memory_seconds={"L2": 1e-6, "DRAM": 5e-6})
    assert (row.bound, round(row.percent_of_roof)) == ("DRAM", 60)
    assert row.intensity == pytest.approx(10_000 / 4000)
    assert row.gbytes == pytest.approx(0.4)


def test_the_calls_of_a_kernel_are_one_row(profile: Profile):
    conv = profile.kernels[0]
    assert [row.kernel for row in profile.kernels] == ["conv", "copy", "tiny"]
    assert (conv.count, conv.origins, conv.flops) == (2, ("n0", "n1", "n2"), profile[0].flops + profile[2].flops)
    assert conv.gflops == pytest.approx(80, rel=1e-3)
    assert conv.memory_seconds == pytest.approx({"L2": 1.6e-6})
    assert [row.kernel for row in profile.rows] == ["conv", "copy", "conv", "tiny"]


def test_operands_are_as_far_away_as_what_was_touched_since():
    values = [
        {"storage": "input", "index": 0, "shape": [100], "dtype": "f32"},
        {"storage": "weights", "offset": 0, "shape": [200], "dtype": "f32"},
        {"storage": "workspace", "offset": 0, "shape": [50], "dtype": "f32"},
        {"storage": "workspace", "offset": 100, "shape": [100], "dtype": "i8"},  # in the memory of the one before
        {"storage": "output", "index": 0, "shape": [10], "dtype": "bf16"},
    ]
    nodes = [
        {"inputs": [0, 1], "outputs": [2]},  # x, w -> t
        {"inputs": [2], "outputs": [4]},  # t -> y
        {"inputs": [4], "outputs": [3]},  # y -> u
    ]
    assert [size_of(value) for value in values] == [400, 800, 200, 100, 20]
    assert place_of(values[3]) == ("workspace", 100, 200)
    everything = 400 + 800 + 200 + 20 + 100
    assert reuse_distances({"values": values, "nodes": nodes}) == [
        [(400, everything), (800, everything - 400), (200, 200)],
        [(200, 200), (20, 20 + 100 + 400 + 800 + 200)],
        [(20, 20), (100, 100 + 20)],
    ]


def test_operands_take_the_bandwidth_of_their_level():
    seconds = memory_seconds([(500, 1000), (500, 900), (2000, 1001), (5, 1 << 40)], MACHINE.level)
    assert seconds == pytest.approx({"L2": 2e-8, "L3": 1e-7, "DRAM": 1e-9})


def test_the_machine_is_measured():
    machine = measure_machine(1)
    assert machine is measure_machine(1)
    assert machine.gflops > 0
    assert machine.levels[-1].name == "DRAM"
    assert all(level.gbytes > 0 for level in machine.levels)
    assert re.fullmatch(r"1 thread reaches \d+ GFLOP/s \(fp32 FMA\) and read L2 .* GB/s", str(machine))
    assert measure_bandwidth(2, megabytes=0.25, repeats=1, passes=4) > 0


# --- of a model ---


def test_a_profile_knows_schedules_roofs_and_lanes(exe: mlc.Executable):
    profile = exe.profile(small_model.inputs(), repeat=3)
    assert profile.machine.threads == 2
    for row in profile:
        assert re.match(r"(contraction|matmul|rows|injective|reduction)", row.schedule), row
        assert row.percent_of_roof > 0
        assert 0 < row.least_seconds <= row.seconds
        assert sum(row.memory_seconds.values()) > 0
    calls = [event for event in profile.events if event.thread < 0]
    assert [event.call for event in calls] == list(range(len(profile)))
    for call in calls:
        parts = [event for event in profile.events if event.call == call.call and event.thread >= 0]
        assert parts
        assert all(call.start <= part.start <= part.end <= call.end for part in parts)


def test_each_thread_has_its_lane():
    func = """te.func @big(%a: tensor<512x512xf32>) -> tensor<512x512xf32> {
      %y = te.compute "y" (%i : 512, %j : 512) {
        %0 = te.read %a[%i, %j] : f32
        %1 = math.exp %0 : f32
        te.yield %1 : f32
      } : tensor<512x512xf32>
      te.return %y : tensor<512x512xf32>
    }
    sched.schedule @big {
      %y = sched.block "y" : !sched.block
      %i, %j = sched.loops %y : 2
      %o, %p = sched.split %i [4, ?]
      sched.parallel %o
    }"""
    import ctypes

    import numpy as np

    from mlc.driver.toolchain import host_probes
    from mlc.runtime.tracing import Tracer, now

    op = mlc.build(func, threads=2)
    tracer = Tracer(host_probes(), op._states.free[0].rt)
    x = np.random.default_rng(0).standard_normal((512, 512), np.float32)
    y = np.empty_like(x)
    args = (ctypes.c_void_p * 3)(x.ctypes.data, y.ctypes.data, 0)
    start = now()
    assert op._kernel(ctypes.addressof(args), tracer.address) == 0
    entries = tracer.take()
    assert sorted(task for _, _, task, _ in entries) == [0, 1, 2, 3]
    assert {thread for *_, thread in entries} <= {0, 1}
    assert all(start <= begin <= end <= now() for begin, end, _, _ in entries)
    assert tracer.take() == []
    np.testing.assert_allclose(y, np.exp(x), rtol=1e-5)


# --- the table ---


@pytest.mark.parametrize("width", [80, 100, 140])
def test_the_table_fits(profile: Profile, width: int):
    text = profile.table(width)
    lines = text.splitlines()
    assert max(map(len, lines[1:])) <= width
    assert ("GFLOP/s" in lines[1]) == (width >= 90)
    assert re.search(r"^ *40\.0 +88\.9 .*80% .*4% compute 2 x conv$", text, re.MULTILINE)
    assert "  contraction: conv 14x32 (n0, n1, n2)" in text
    assert re.search(r" 22% L3 +copy$", text, re.MULTILINE)
    assert lines[-1].endswith("all: 4 calls of 3 kernels")
    assert str(profile) == profile.table(100)


def test_a_long_name_keeps_its_end():
    for width in (80, 90, 100):
        text = Profile([kernel("conv2d_" * 9 + "1df9d2ff")], MACHINE).table(width)
        assert re.search(r" conv2d_conv2d_[a-z_2]+…_1df9d2ff$", text, re.MULTILINE)


def test_small_kernels_share_a_line_on_the_terminal(profile: Profile):
    from io import StringIO

    from rich.console import Console

    from mlc.runtime.report.table import show

    out = StringIO()
    show(profile, Console(file=out, width=100, force_terminal=True))
    assert "1 more kernel" in out.getvalue()
    assert "\x1b[32m" in out.getvalue(), "expected colours on a terminal"
    assert "tiny" not in out.getvalue()
    assert "tiny" in str(profile)


# --- the plot ---


def test_the_svg_has_a_dot_for_each_kernel(profile: Profile, tmp_path: Path):
    profile.plot(tmp_path / "p.svg", "a <model> & more")
    root = ElementTree.parse(tmp_path / "p.svg").getroot()
    dots = {circle.findtext(f"{SVG}title", "").split(" ")[0]: circle for circle in root.iter(f"{SVG}circle")}
    assert {"conv", "copy", "tiny"} <= set(dots)
    areas = {name: float(dots[name].attrib["r"]) ** 2 for name in ("conv", "copy")}
    assert areas["conv"] / areas["copy"] == pytest.approx(8, rel=0.05)
    assert dots["copy"].attrib["fill"] == "#ffffff"
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert "a <model> & more" in texts
    assert {"FMA peak 100 GFLOP/s", "L2 50 GB/s", "L3 20 GB/s", "DRAM 5 GB/s", "bound by compute"} <= set(texts)
    assert "1  conv x2: 40 us, 80%" in texts


def test_dots_stand_under_the_roofs(profile: Profile):
    roofline = Roofline(profile)
    (left, right), (bottom, top) = roofline.x_range, roofline.y_range
    for dot in roofline.dots:
        assert left <= dot.x <= right
        assert bottom <= dot.y <= min(top, MACHINE.gflops)
    for _, _, (x0, y0), (x1, y1) in roofline.roofs():
        assert left <= x0 < x1 <= right
        assert bottom * 0.999 <= y0 <= y1 <= MACHINE.gflops


def test_a_plot_without_matplotlib_says_what_to_do(profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(UserError, match=r"expected matplotlib to draw '.*p\.png'; pip install 'mlc\[plot\]'"):
        profile.plot(tmp_path / "p.png")
    with pytest.raises(UserError, match=r"expected a plot's file to end in \.svg, \.png or \.pdf, but got '.*p\.jpg'"):
        profile.plot(tmp_path / "p.jpg")
    with pytest.raises(UserError, match="expected a profile with at least one kernel"):
        Profile([], MACHINE).plot(tmp_path / "p.svg")


def test_matplotlib_draws_it_too(profile: Profile, tmp_path: Path):
    pytest.importorskip("matplotlib")
    profile.plot(tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


# --- files ---


def test_the_trace_has_lanes(profile: Profile, tmp_path: Path):
    profile.save_trace(tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert names == {0: "calls", 1: "thread 0", 2: "thread 1"}
    call, first, second = (event for event in events if event["ph"] == "X")
    assert (call["tid"], call["ts"], call["dur"], call["args"]["bound"]) == (0, 0.0, 1.0, "compute")
    assert (first["tid"], second["tid"], second["args"]) == (1, 2, {"task": 1})
    assert call["args"]["schedule"] == "contraction: conv 14x32"


def test_json_has_every_figure(profile: Profile):
    record = json.loads(profile.to_json())
    assert record["machine"]["levels"][1] == {"name": "L3", "bytes": 10_000, "gbytes": 20.0}
    assert record["seconds"] == pytest.approx(profile.seconds)
    first = record["calls"][0]
    assert {"kernel", "seconds", "flops", "bytes", "percent_of_peak", "bound", "origins", "schedule"} <= set(first)


def test_bench_writes_plot_trace_and_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    path = small_model.write(tmp_path, small_model.ONE_TEXT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    words = ["--seconds", "0.02", "--threads", "1", "--roofline", "r.svg", "--trace", "t.json", "--json", "f.json"]
    assert cli.run(["bench", str(path), *words]) == 0
    out = capsys.readouterr().out
    assert "kernel: schedule (source nodes)" in out
    assert out.endswith("wrote r.svg\nwrote t.json\nwrote f.json\n")
    assert (tmp_path / "r.svg").read_text().startswith("<svg")
    assert json.loads((tmp_path / "f.json").read_text())["profile"]["machine"]["threads"] == 1
    assert len(json.loads((tmp_path / "t.json").read_text())["traceEvents"]) >= 7
    assert cli.run(["bench", str(path), "--seconds", "0.02", "--threads", "1", "--trace", "no/t.json"]) == 1
    assert "expected a FILE in a directory that exists, but got 'no/t.json'" in capsys.readouterr().err
    assert cli.run(["bench", str(path), "--seconds", "0.02", "--threads", "1", "--roofline"]) == 0
    assert "GFLOP/s" in capsys.readouterr().out
    assert cli.run(["bench", "--roofline", str(path)]) == 1
    assert f"expected a FILE that ends in .svg, .png or .pdf, but got '{path}'" in capsys.readouterr().err
