"""Memory pools: declared regions, filled in order, refused where they do not suffice; the planners by choice."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlc
from mlc.driver.export.c_header import c_header
from mlc.driver.memory_options import MemoryOptions
from mlc.lowering.memory.lifetimes import Lifetime, align
from mlc.lowering.memory.planners import PLANNER_NAMES
from mlc.lowering.memory.pools import place_constants, plan_in_pools
from mlc.support.errors import UserError
from mlc.support.registered.memory_pools import pools_of

PROGRAM = """
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %w = graph.constant dense<0.5> : tensor<64x64xf32>
  %0 = graph.dense %x, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = graph.softmax %0 {axis = 1} : tensor<64x64xf32>
  %2 = graph.dense %1, %w : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %2 : tensor<64x64xf32>
}
"""

lifetimes = st.builds(
    lambda size, first, length: Lifetime(size, first, first + length),
    st.integers(0, 3000),
    st.integers(0, 9),
    st.integers(0, 4),
)


@given(st.lists(lifetimes, max_size=12), st.lists(st.integers(64, 8000), min_size=1, max_size=3))
@settings(max_examples=40)
def test_pools_hold_what_is_placed_in_them_and_nothing_overlaps(buffers: list[Lifetime], sizes: list[int]):
    pools = [mlc.WorkspacePool(f"p{k}", size) for k, size in enumerate(sizes)]
    try:
        result, used = plan_in_pools(buffers, pools, "best", 0, str)
    except UserError as error:
        refused = error.text
    else:
        refused = ""
    if refused:
        assert "but there is none" in refused
        assert sum(align(b.bytes) for b in buffers) > min(sizes)
        return
    assert [one.start for one in used] == [sum(o.used for o in used[:k]) for k in range(len(used))]
    assert all(one.used <= one.pool.bytes for one in used)
    for i, (a, at) in enumerate(zip(buffers, result.offsets, strict=True)):
        assert any(one.start <= at and at + a.bytes <= one.start + one.used for one in used) or not a.bytes
        for b, other in list(zip(buffers, result.offsets, strict=True))[:i]:
            assert not a.meets(b) or at + a.bytes <= other or other + b.bytes <= at


def test_what_does_not_fit_the_first_pool_goes_to_the_next():
    buffers = [Lifetime(1024, 0, 1), Lifetime(256, 0, 1), Lifetime(128, 0, 1)]
    result, used = plan_in_pools(
        buffers, [mlc.WorkspacePool("fast", 512), mlc.WorkspacePool("big", 4096)], "best", 0, str
    )
    assert [one.used for one in used] == [384, 1024]
    assert result.offsets == (384, 0, 256)
    assert place_constants([100, 300, 60], [mlc.ConstantPool("a", 192), mlc.ConstantPool("b", 320)])[0] == [0, 192, 128]


def model(path) -> str:
    (path / "two.mlir").write_text(PROGRAM)
    return str(path / "two.mlir")


def test_programs_in_pools_compute_the_same_and_say_what_they_use(tmp_path):
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    file = model(tmp_path)
    (expected,) = mlc.compile(file, threads=1, cache=False)({"input0": x}).values()
    pools = [mlc.WorkspacePool("fast", 16 << 10), mlc.WorkspacePool("slow", 1 << 20), mlc.ConstantPool("flash", 16384)]
    exe = mlc.compile(file, threads=1, cache=False, pools=pools, opt_level=0, memory_planner="tokens")
    np.testing.assert_allclose(next(iter(exe({"input0": x}).values())), expected, rtol=1e-4, atol=1e-5)
    facts = exe.artifact.model
    assert [pool["name"] for pool in facts["pools"]] == ["fast", "slow", "flash"]
    assert sum(pool["used"] for pool in facts["pools"] if pool["kind"] == "workspace") == facts["workspace_bytes"]
    header = c_header(facts, "two")
    assert "#define TWO_WORKSPACE_POOL_FAST_BYTES 16384" in header
    assert "#define TWO_WORKSPACE_POOL_SLOW_OFFSET" in header
    assert "#define TWO_CONSTANT_POOL_FLASH_USED 16384" in header


@pytest.mark.parametrize(
    ("pools", "message"),
    [
        (
            [mlc.WorkspacePool("sram", 4096)],
            r"a 64x64 intermediate of 16384 bytes .* \('sram' of 4096 bytes\)",
        ),
        ([mlc.ConstantPool("flash", 4096)], r"room for a constant of 16384 bytes in the constant pools \('flash' of"),
        ([mlc.WorkspacePool("a", 9), mlc.ConstantPool("A", 9)], "expected pools of different names, but got 'A' twice"),
        ([4096], r"expected pools to hold mlc\.WorkspacePool and mlc\.ConstantPool, but got 4096"),
        ("sram", "expected pools to be a list of memory pools, but got 'sram'"),
    ],
)
def test_pools_that_do_not_suffice_are_refused(tmp_path, pools, message):
    with pytest.raises(UserError, match=message):
        mlc.compile(model(tmp_path), threads=1, cache=False, pools=pools)


def test_wrong_options_are_refused():
    with pytest.raises(UserError, match=r"expected memory_planner to be one of best, .*; did you mean 'tokens'"):
        MemoryOptions("token")
    with pytest.raises(UserError, match="expected memory_seed to be an integer from 0 on, but got -1"):
        MemoryOptions(PLANNER_NAMES[0], -1)
    with pytest.raises(UserError, match="expected the name of a memory pool to be an identifier, but got 'a b'"):
        mlc.WorkspacePool("a b", 4)
    with pytest.raises(UserError, match="expected pool 'a' to have at least 1 byte, but got 0"):
        mlc.ConstantPool("a", 0)
    with pytest.raises(UserError, match="expected pools as NAME:BYTES,NAME:BYTES, but got 'a=4'"):
        pools_of("a=4", mlc.WorkspacePool)
