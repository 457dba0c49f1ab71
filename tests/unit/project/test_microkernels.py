"""benchmarks/microkernels.py: its tiles fit the registers, and what they compute is numpy's product."""

import pytest
from scripts import script

from mlc.targets.target import Target, native_target


@pytest.fixture(scope="module")
def microkernels():
    return script("benchmarks", "microkernels")


@pytest.mark.parametrize("name", ["x86-64-v3", "znver5"])
def test_sums_and_their_operands_fit_the_registers(microkernels, name: str) -> None:
    target = Target.parse(name)
    tiles = list(microkernels.tiles(target))
    assert {tile.vectors for tile in tiles} == {1, 2, 3, 4}
    assert all((tile.rows + 1) * tile.vectors < target.vector_registers for tile in tiles)
    assert len(set(tiles)) == len(tiles)


def test_a_micro_kernel_that_is_wrong_is_not_measured(microkernels) -> None:
    native = native_target()
    tile = microkernels.Tile(3, 2, native.lanes("f32"))
    run, operations = microkernels.tile_run(tile, native, 2)  # compares with numpy
    assert operations == 2 * 3 * 2 * tile.lanes * microkernels.DEPTH * microkernels.CALLS
    run()

    class Wrong(microkernels.Tile):
        @property
        def ir(self) -> str:
            return super().ir.replace("%next = add i64 %k, 1", "%next = add i64 %k, 2", 1)

    with pytest.raises(ValueError, match=r"expected the micro-kernel 3x2 to give numpy's sums"):
        microkernels.tile_run(Wrong(3, 2, tile.lanes), native, 2)
