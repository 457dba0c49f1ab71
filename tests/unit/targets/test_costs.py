"""The cost model: functions of a target's numbers."""

from dataclasses import replace

import pytest

from mlc.targets.cost import thresholds
from mlc.targets.cost.attention import parts_of_a_head, query_block, shared_query_block
from mlc.targets.cost.branches import BranchCosts
from mlc.targets.cost.branches import Contraction as Branch
from mlc.targets.cost.caches import (
    depth_block,
    far_bytes_per_cycle,
    gains_by_prefetch,
    is_far,
    planned_l2_bytes,
    share_a_set,
    spilled_bytes_per_cycle,
    streams,
)
from mlc.targets.cost.grids import Grid, GridWork, choose_grid, product_parts
from mlc.targets.cost.open_sizes import least_regret, open_block, scored_sizes
from mlc.targets.cost.threads import balance, least_work, worth_threads
from mlc.targets.cost.tiles import (
    RegisterTile,
    Strips,
    divisors,
    even_split,
    most_rows,
    pieces,
    register_tile,
    sliding_rows,
    step_cycles,
)
from mlc.targets.cost.windows import Row, planar_tile, window_tile
from mlc.targets.cost.winograd import Block, direct_cycles, overlapped, problem
from mlc.targets.target import Target

ZEN5 = Target.parse("znver5")
AVX2 = Target.parse("x86-64-v3")
CORE = ZEN5.core


def with_rates(target: Target, **rates: float) -> Target:
    return replace(target, core=replace(target.core, **rates))


def test_lengths_are_cut() -> None:
    assert divisors(36) == [1, 2, 3, 4, 6, 9, 12, 18, 36]
    assert even_split(57, 14) == 12
    assert pieces(11, 4) == [(4, 2), (3, 1)]
    assert pieces(12, 4) == [(4, 3)]


def test_a_step_takes_its_arithmetic_its_loads_or_the_latency() -> None:
    assert step_cycles(14, 2, CORE) == 14.0
    assert step_cycles(1, 12, CORE) == 6.5
    assert step_cycles(2, 2, CORE) == 4.0
    assert step_cycles(6, 2, CORE, scalar_loads=False) == 7.0
    assert step_cycles(2, 2, replace(CORE, fma_latency_cycles=5.0)) == 5.0
    assert step_cycles(14, 2, replace(CORE, fmas_per_cycle=1.0)) == 28.0


def test_tiles_of_one_vector_issue_more_operations_for_each_product() -> None:
    zen3 = Target.parse("znver3")
    assert step_cycles(13, 1, zen3.core) == 27 / zen3.core.operations_per_cycle
    assert step_cycles(6, 2, zen3.core) == 6.0 + zen3.core.step_cycles
    assert register_tile(26, 2, zen3) == RegisterTile(6, 2)
    assert most_rows(31, 2, zen3) == 6
    assert most_rows(31, 2, ZEN5) == 11


def test_tiles_leave_a_register_where_others_do_as_well() -> None:
    zen3 = Target.parse("znver3")
    assert register_tile(64, 275, zen3) == RegisterTile(6, 2)  # 2x5 cuts 275 evenly, and takes all 16 registers
    assert register_tile(4, 3, zen3) == RegisterTile(4, 3)
    assert register_tile(3, 192, zen3, unit=4) == RegisterTile(3, 2)  # 2x4 would read its columns twice


def test_packed_columns_come_from_l2_for_each_row_of_tiles() -> None:
    zen3 = Target.parse("znver3")
    far = Strips(zen3.l1_bytes, packed=True)
    assert register_tile(38, 48, zen3, unit=4) == RegisterTile(2, 4)
    assert register_tile(38, 48, zen3, unit=4, strips=far) == RegisterTile(5, 2)
    assert register_tile(2, 48, zen3, unit=4, strips=far) == RegisterTile(2, 4)  # once, in any tile
    assert far.far_cycles(3, 2, zen3) < Strips(zen3.l1_bytes).far_cycles(3, 2, zen3)
    assert Strips(64).far_cycles(3, 2, zen3) == 0


def test_blocks_of_queries_are_whole_tiles_where_strips_fit() -> None:
    zen3 = Target.parse("znver3")
    assert [query_block(keys, keys, zen3) for keys in (269, 1407, 4096, 8192)] == [24, 24, 24, 16]
    assert query_block(1407, 1407, zen3, band=True) == 16
    assert query_block(1407, 1407, ZEN5) % (6 * ZEN5.lanes("f32")) != 0


def test_threads_that_share_the_queries_of_a_head_end_together() -> None:
    # 26 vectors of queries: 4 blocks of 4 beside 3 of them, or 13 blocks of one each
    assert shared_query_block(415, 1, 64, 2, ZEN5) == 16
    assert shared_query_block(415, 2, 64, 2, ZEN5) == 64  # a head a thread
    assert shared_query_block(512, 1, 64, 2, ZEN5) == 64
    assert shared_query_block(20, 1, 32, 2, ZEN5) == 16  # two vectors, one a thread
    assert shared_query_block(10, 1, 10, 2, ZEN5) == 10
    # with AVX2, tiles of 6 rows cover 24 queries, and neither 8 nor 16
    zen3 = Target.parse("znver3")
    assert [shared_query_block(n, 1, 24, 2, zen3) for n in (415, 30, 9)] == [24, 16, 8]
    assert [parts_of_a_head(heads, 7, 2) for heads in (1, 2, 3)] == [2, 1, 2]


def test_register_tiles_are_those_of_blis() -> None:
    assert register_tile(1000, 2, ZEN5) == RegisterTile(14, 2)
    assert register_tile(1000, 2, AVX2) == RegisterTile(6, 2)
    assert register_tile(7, 3, ZEN5) == RegisterTile(7, 3)
    assert register_tile(1, 4, ZEN5) == RegisterTile(1, 4)


@pytest.mark.parametrize("reserved", [0, 4, 12])
def test_a_tile_fits_the_registers_that_are_left(reserved: int) -> None:
    for rows in (1, 5, 49, 196):
        for vectors in (1, 2, 3, 8):
            tile = register_tile(rows, vectors, ZEN5, reserved)
            assert tile.rows * tile.vectors + tile.vectors + 1 <= 32 - reserved


def test_a_tile_does_not_cross_blocks_and_has_its_least_rows() -> None:
    assert register_tile(100, 9, ZEN5, unit=3).vectors in (1, 3, 6, 9)
    assert register_tile(100, 8, ZEN5, least=6).rows >= 6


def test_a_sliding_window_leaves_registers_to_its_taps() -> None:
    assert [sliding_rows(step, ZEN5) for step in (1, 2, 100)] == [12, 6, 1]
    assert sliding_rows(1, AVX2) == 6


def test_a_window_over_channels_last_has_fewer_pixels_the_more_push_each_other_out_of_l1() -> None:
    row = Row(pixels=28, step=1, span=3)
    tiles = [window_tile(row, channels, ZEN5) for channels in (24, 96, 256, 512, 1024)]
    assert tiles == [(10, 2), (10, 2), (10, 2), (10, 2), (5, 4)]
    assert window_tile(row._replace(span=9), 1024, ZEN5) is None
    assert window_tile(row, 96, AVX2) == (5, 2)
    assert window_tile(row._replace(pixels=7), 1024, ZEN5) == (4, 4)


def test_bytes_are_near_or_far() -> None:
    assert planned_l2_bytes(ZEN5) == 512 << 10
    assert not is_far(512 << 10, ZEN5)
    assert is_far((512 << 10) + 1, ZEN5)
    assert far_bytes_per_cycle(8 << 20, ZEN5) == CORE.l3_bytes_per_cycle == 14.0
    assert far_bytes_per_cycle((8 << 20) + 1, ZEN5) == CORE.memory_bytes_per_cycle == 8.0
    assert (spilled_bytes_per_cycle(1, ZEN5), spilled_bytes_per_cycle(1 << 30, ZEN5)) == (24.0, 3.0)


def test_weights_are_fetched_ahead_from_where_the_machine_gains_by_it() -> None:
    loses = replace(ZEN5, core=replace(CORE, l3_prefetch_gain_cycles=0.0))
    assert gains_by_prefetch(1 << 20, ZEN5)
    assert not gains_by_prefetch(ZEN5.l3_bytes, loses)
    assert gains_by_prefetch(ZEN5.l3_bytes + 1, loses)


def test_rows_far_apart_share_sets_of_l1() -> None:
    assert streams(8192, ZEN5) == 12
    assert streams(6144, ZEN5) == 24
    assert streams(4 * 1031, ZEN5) >= 12 * 64
    assert share_a_set(8192, ZEN5)
    assert not share_a_set(8192 + 64, ZEN5)


def test_depth_is_cut_evenly() -> None:
    assert depth_block(1024, 4 * 12, ZEN5) == 1024
    assert depth_block(2048, 4 * 12, ZEN5) == 1024
    assert depth_block(2049, 4 * 14, ZEN5) == 683
    assert depth_block(1000, 10**6, ZEN5) == 50  # the largest divisor up to LEAST_DEPTH_BLOCK


def test_columns_are_shared_where_the_right_operand_is_the_larger() -> None:
    assert product_parts(10, 64, 1, 1e6, (1e5, 1e7), 2, CORE) == Grid(10, 32)
    assert product_parts(64, 10, 1, 1e6, (1e7, 1e5), 2, CORE) == Grid(32, 10)


def test_a_grid_keeps_threads_busy_and_blocks_in_l2() -> None:
    work = GridWork(
        1, rows=56, columns=4, row_bytes=14336, halo_rows=2, width=4.0, weight_bytes=147456, cycles=4e6, pads=True
    )
    for threads in (1, 2, 4):
        grid = choose_grid(work, threads, ZEN5)
        tasks = -(-56 // grid.row_block) * grid.column_parts
        assert balance(tasks, threads) > thresholds.GOOD_BALANCE
        assert work.block_bytes(grid.row_block) <= planned_l2_bytes(ZEN5)
    small = replace(ZEN5, l2_bytes=64 << 10)
    assert choose_grid(work, 1, small).row_block == 1


def test_a_grid_costs_its_arithmetic_its_bytes_and_its_tasks() -> None:
    work = GridWork(
        1, rows=8, columns=2, row_bytes=1000.0, halo_rows=0, width=2.0, weight_bytes=8000.0, cycles=1e5, pads=False
    )
    l2 = planned_l2_bytes(ZEN5)
    assert work.cost(Grid(8, 1), 8, 1, l2, CORE) == 1e5 + 8000 / 8 + 8000 / 16 + 300
    assert work.cost(Grid(4, 1), 8, 1, l2, CORE) == 1e5 + 8000 / 8 + 8000 / 16 + 2 * 300
    padded = replace(work, pads=True)
    assert padded.cost(Grid(8, 1), 8, 1, l2, CORE) == pytest.approx(1e5 + 1000 + 500 + 8000 / 24 + 300)


def test_a_ragged_last_column_is_no_even_part() -> None:
    """Of 8 vectors in tiles of 5, two threads take 5 and 3; of 19 rows 10 and 9."""
    work = GridWork(
        1, rows=19, columns=2, row_bytes=8e3, halo_rows=1, width=1.6, weight_bytes=1.5e5, cycles=2e5, pads=False
    )
    l2 = planned_l2_bytes(ZEN5)
    assert work.cost(Grid(19, 2), 19, 2, l2, CORE) > work.cost(Grid(10, 1), 19, 2, l2, CORE)
    assert choose_grid(work, 2, ZEN5) == Grid(10, 1)


def test_shares_of_threads_may_leave_l2_where_smaller_blocks_are_not_even() -> None:
    """Of 25 rows, 13 and 12 instead of 14 and 11 in blocks of 7, unless many columns read them again."""
    work = GridWork(
        1, rows=25, columns=2, row_bytes=40e3, halo_rows=1, width=1.6, weight_bytes=5.9e5, cycles=4.4e6, pads=False
    )
    l2 = planned_l2_bytes(ZEN5)
    assert work.block_bytes(12) < l2 < work.block_bytes(13)
    assert choose_grid(work, 2, ZEN5) == Grid(13, 1)
    many = replace(work, columns=20, width=20.0)
    assert work.leaves_l2(13, l2)
    assert not many.leaves_l2(choose_grid(many, 2, ZEN5).row_block, l2)


def test_threads_take_rows_that_they_have_written() -> None:
    """Rows, unless windows reach over as many rows as a thread has: then groups of channels."""
    work = GridWork(
        1,
        rows=8,
        columns=1,
        row_bytes=8192.0,
        halo_rows=2,
        width=1.0,
        weight_bytes=1e3,
        cycles=2e4,
        pads=False,
        groups=24,
    )
    dealt = replace(work, dealt=True)
    assert dealt.foreign_bytes(Grid(4, 1), 8, 2) == 24 * 8192
    assert dealt.foreign_bytes(Grid(8, 1), 8, 2) == 24 * 8 * 8192 / 2 / 2
    assert work.foreign_bytes(Grid(8, 1), 8, 2) == dealt.foreign_bytes(Grid(8, 1), 8, 1) == 0
    assert choose_grid(work, 2, ZEN5).row_block == 8
    assert choose_grid(dealt, 2, ZEN5).row_block == 4
    assert choose_grid(replace(dealt, rows=4, halo_rows=6), 2, ZEN5).row_block == 4


def test_columns_read_rows_of_all_threads() -> None:
    work = GridWork(
        1, rows=9, columns=4, row_bytes=8192.0, halo_rows=0, width=4.0, weight_bytes=1e4, cycles=3e4, pads=False
    )
    assert choose_grid(work, 2, ZEN5).column_parts % 2 == 0
    assert choose_grid(replace(work, dealt=True), 2, ZEN5).column_parts == 1


def test_tiles_of_rows_are_dealt_out_evenly() -> None:
    """Of 64 rows, two threads take four tiles of 8 each, and not three of 13 and two."""
    alone, shared = (register_tile(64, 2, ZEN5, row_threads=threads) for threads in (1, 2))
    assert (alone.rows, shared.rows) == (13, 8)


def test_blocks_of_open_rows_are_short_on_threads() -> None:
    assert open_block(1.0, 1) == thresholds.OPEN_BLOCK
    assert open_block(1e6, 2) == 2
    assert open_block(2500.0, 2) == 8


def test_merged_axes_are_scored_as_their_symbols() -> None:
    assert scored_sizes(7, 0) == [7]
    single, merged = scored_sizes(256, 256), scored_sizes(65536, 65536)
    assert single[-2:] == [256, 377]
    assert all(abs(n * n / m - 1) < 0.05 for n, m in zip(single, merged, strict=True))


def test_the_choice_that_is_nowhere_bad() -> None:
    assert least_regret([([1.0, 90.0], "few"), ([9.0, 30.0], "many"), ([1.5, 33.0], "both")]) == "both"


def test_few_rows_of_open_number_keep_threads_busy() -> None:
    """Two merged symbols, of which 16 tiles of rows (14 x 14 pixels) and 5000 are likely."""
    work = GridWork(
        1,
        rows=5461,
        columns=12,
        row_bytes=4608.0,
        halo_rows=0,
        width=12.0,
        weight_bytes=147456.0,
        cycles=7.5e7,
        pads=False,
    )
    grid = choose_grid(work, 2, ZEN5, 65536)
    assert grid.columns_first or -(-16 // grid.row_block) >= 2
    parts = product_parts(19, 8, 1, 5e5, (2.6e5, 2.6e5), 2, CORE, (256, 256))
    for rows, columns in ((10, 4), (19, 8)):  # half of the typical sizes, and all of them
        assert -(-rows // parts.row_block) * -(-columns // parts.column_parts) >= 2


def test_threads_are_worth_more_than_they_take_to_wake() -> None:
    assert not worth_threads(3000, 2, ZEN5)
    assert worth_threads(3000, 4, ZEN5)
    assert worth_threads(1e5, 2, ZEN5)
    assert not worth_threads(1e9, 1, ZEN5)
    assert worth_threads(3000, 2, with_rates(ZEN5, dispatch_cycles=1000.0))
    assert least_work(1e4, 100, 2, ZEN5) == 40  # 4000 of 10000 cycles: half of them is what waking costs


def test_what_a_stream_hides() -> None:
    assert overlapped(100.0, 40.0) == overlapped(40.0, 100.0) == 110.0


def test_winograd_beats_the_direct_sum_of_many_channels() -> None:
    deep = problem(4, 1, (28, 28), (8, 16), (8, 16), 64, 16)
    assert deep.best(ZEN5, 1)[0] < direct_cycles(28 * 28, 128, 128, 8, ZEN5, 1)
    shallow = problem(4, 1, (28, 28), (1, 3), (1, 16), 16, 16)
    assert shallow.best(ZEN5, 1)[0] > direct_cycles(28 * 28, 3, 16, 1, ZEN5, 1)
    # weights that stay in L2 come once for all blocks
    rows = replace(deep, inputs=16, outputs=16)
    assert rows.cycles(Block(1, 7), ZEN5, 1) < deep.cycles(Block(1, 7), ZEN5, 1)


def test_tiles_of_narrow_vectors_have_more_rows() -> None:
    assert register_tile(64, 24, ZEN5) == RegisterTile(13, 2)
    assert register_tile(64, 24, ZEN5, widens=True) == RegisterTile(22, 1)


def test_tiles_that_widen_issue_more_operations_for_each_vector() -> None:
    zen3 = Target.parse("znver3")
    assert register_tile(38, 24, zen3, unit=4) == RegisterTile(2, 4)
    assert register_tile(38, 24, zen3, unit=4, widens=True) == RegisterTile(6, 2)


def test_windows_over_planes_share_rows() -> None:
    assert planar_tile(30, 3, ZEN5) == (4, 3)
    assert planar_tile(56, 7, ZEN5) == (3, 4)
    assert planar_tile(9, 1, ZEN5) == (3, 1)
    assert planar_tile(30, 6, AVX2) == (2, 3)


def test_branches_share_their_data() -> None:
    machine = BranchCosts(ZEN5, 1)
    one = Branch(1, 49, 64, 512, 49 * 512, 64 * 512)
    three = Branch(1, 49, 192, 512, 49 * 512, 192 * 512)
    assert machine.contraction(three) < 3 * machine.contraction(one)
    assert machine.copy(1000) == 8 * 1000 / 20 + 100
    assert machine.copy(1000, whole=False) == 8 * 1000 / 4 + 100
    assert machine.stream(1 << 10) == 0.0
    assert machine.stream(1 << 20) == (4 << 20) / 14


def test_every_threshold_says_what_it_is() -> None:
    source = thresholds.__loader__.get_source(thresholds.__name__)  # pyright: ignore[reportAttributeAccessIssue]
    lines = source.splitlines()
    named = [number for number, line in enumerate(lines) if line.partition(" ")[0].isupper()]
    assert len(named) > 40
    assert [lines[k] for k in named if not lines[k + 1].startswith('"""')] == []
