"""benchmarks/calibrate.py: what it writes is a machine, what it measures is one of this world."""

from pathlib import Path

import pytest
from scripts import script

from mlc.targets.target import Target, native_target


@pytest.fixture(scope="module")
def calibrate():
    return script("benchmarks", "calibrate")


def test_a_description_is_a_target(calibrate, tmp_path: Path) -> None:
    native = native_target()
    path = tmp_path / "mine.toml"
    path.write_text(calibrate.description("mine", native, {"dispatch_cycles": 1234.5, "fmas_per_cycle": 1.987}))
    target = Target.parse(str(path))
    assert (target.core.dispatch_cycles, target.core.fmas_per_cycle) == (1234.0, 1.99)
    assert target.core.tile_cycles == native.core.tile_cycles
    same = ("cpu", "features", "vector_bits", "vector_registers", "masked_memory", "fma", "instructions", "l2_bytes")
    assert [getattr(target, name) for name in same] == [getattr(native, name) for name in same]


def test_the_end_of_a_flat_stretch_is_a_cache(calibrate) -> None:
    latencies = {8: 4.0, 16: 4.1, 32: 4.1, 64: 9.0, 128: 13.0, 256: 14.0, 512: 14.2, 1024: 40.0, 2048: 46.0}
    assert calibrate.cache_sizes(latencies) == [32, 512]


@pytest.mark.skipif(not native_target().fma, reason="the probe is of FMAs")
def test_probes_run(calibrate) -> None:
    bench = calibrate.Bench(native_target())
    issue = calibrate.measure_issue(bench)
    assert set(issue) == {"fmas_per_cycle", "loads_per_cycle", "fma_latency_cycles"}
    assert all(0 < value < float("inf") for value in issue.values())
    assert set(calibrate.measure_latencies(bench, [8192, 16384])) == {8192, 16384}
