"""A reduction of few results in two steps: partial results in lanes, then their sum."""

from __future__ import annotations

from math import prod

from mlc.schedules.analysis import Stage
from mlc.schedules.builder import ScheduleBuilder

FEW_POINTS = 64
"""Results of a reduction, at most, for which partial results are tried."""
PARTS = (8, 16, 32, 64)
"""Numbers of partial results of one result that tuning tries."""


def partial_counts(st: Stage) -> tuple[int, ...]:
    """Candidates for the number of partial results; 1, for none, comes first."""
    few = prod(st.extents[: st.num_spatial]) <= FEW_POINTS
    if not st.is_reduction or st.symbolic or st.has_computed_mask or not few or len(st.results) > 1:
        return (1,)
    return (1, *(n for n in PARTS if st.extents[-1] % n == 0 and st.extents[-1] > n))


def factor_reduction(s: ScheduleBuilder, st: Stage, parts: int) -> None:
    """Split the last reduction axis, reduce it in `parts` lanes of a buffer of partial results, then these."""
    loops = list(s.loops(s.block(st.name), len(st.extents)))
    _, inner = s.split(loops[-1], [None, parts])
    first = s.rfactor(inner, st.num_spatial)
    around = list(s.loops(first, len(st.extents) + 1))
    spatial, reduce, lanes = around[: st.num_spatial], around[st.num_spatial : -1], around[-1]
    s.reorder(*spatial, *reduce, lanes)
    if st.gather_index_may_overrun:
        return
    init, _ = s.decompose_reduction(first, reduce[0])
    under = spatial[-1] if spatial else None
    s.vectorize(lanes)
    s.vectorize(*s.loops(init, 1, under=under))
