"""
The tile sizes that a configuration of AutoTVM stands for, in mlc's terms, and back.

    conv2d_NCHWc, depthwise   tile_ic, tile_oc -> channels in a block of input and output; tile_ow -> rows of the
                              register tile (points of a row), tile_oh -> output rows of the tile; unroll_kw -> taps
    dense_pack                tile_x [.., part, lanes], tile_y [.., part, rows], tile_k [.., unrolled], tile_inner
    batch_matmul              tile_x [.., lanes], tile_y [.., rows], tile_k [.., unrolled]
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import cast

from mlc.support.errors import UserError
from mlc.tuning.records.tvm.log import Entity, TvmRecord
from mlc.tuning.records.tvm.workloads import Convolution, MatrixProduct, Workload, index_of, workload_of


@dataclass(frozen=True)
class TileSizes:
    """The register tile and the blocks of a schedule."""

    rows: int
    """Rows of the register tile: points of an output row, rows of a product."""
    lanes: int
    """Elements of its last axis: output channels in a block, columns of a product."""
    in_block: int = 1
    """Input channels in a block of the layout."""
    image_rows: int = 1
    """Output rows of a convolution in one register tile."""
    row_part: int = 1
    """Register tiles of rows that one task of the thread pool takes, one after another."""
    column_part: int = 1
    """Register tiles of columns, likewise."""
    depth: int = 1
    """Steps of the reduction that are unrolled."""
    inner: int = 1
    """Rows of the register tile between which dense_pack unrolls the reduction."""
    unrolls_taps: bool = False
    """Whether the taps along a row of a convolution's window are unrolled."""


def full_split(extent: int, sizes: list[int]) -> tuple[int, ...]:
    """A split with its outermost size computed where it is -1."""
    inner = prod(sizes[1:])
    return (ceil(extent / inner) if sizes[0] == -1 else sizes[0], *sizes[1:])


def tiles_of(record: TvmRecord) -> TileSizes:
    """The tile sizes of a record; UserError for another template or entities that are not the template's."""
    workload = workload_of(record)
    if workload is None:
        raise UserError(
            f"expected a task of conv2d_NCHWc, depthwise, dense_pack or batch_matmul, but got {record.task}"
        )
    values = record.values
    index_of(workload, record.entities)
    if isinstance(workload, Convolution):
        return TileSizes(
            rows=_last(values["tile_ow"]),
            lanes=_last(values["tile_oc"]),
            in_block=_last(values["tile_ic"]),
            image_rows=cast(int, values.get("tile_oh", 1)),
            unrolls_taps=bool(values.get("unroll_kw", False)),
        )
    if workload.batch is not None:
        return TileSizes(rows=_last(values["tile_y"]), lanes=_last(values["tile_x"]), depth=_last(values["tile_k"]))
    rows = full_split(workload.m, cast("list[int]", values["tile_y"]))
    columns = full_split(workload.n, cast("list[int]", values["tile_x"]))
    return TileSizes(
        rows=rows[-1],
        lanes=columns[-1],
        row_part=rows[-2],
        column_part=columns[-2],
        depth=_last(values["tile_k"]),
        inner=_last(values["tile_inner"]),
    )


def entities_of(workload: Workload, tiles: TileSizes) -> tuple[Entity, ...]:
    """The configuration of these tile sizes; each entity takes the candidate nearest to its size."""
    sizes: dict[str, tuple[int, ...]]
    if isinstance(workload, Convolution):
        sizes = {"tile_ic": (tiles.in_block,), "tile_oc": (tiles.lanes,), "tile_ow": (tiles.rows,)}
    elif workload.batch is not None:
        sizes = {"tile_y": (tiles.rows,), "tile_x": (tiles.lanes,), "tile_k": (tiles.depth,)}
    else:
        sizes = {
            "tile_y": (tiles.row_part, tiles.rows),
            "tile_x": (tiles.column_part, tiles.lanes),
            "tile_k": (tiles.depth,),
            "tile_inner": (tiles.inner,),
        }
    others: dict[str, int | bool] = {"tile_oh": tiles.image_rows, "unroll_kw": tiles.unrolls_taps}
    found: list[Entity] = []
    for name, (tag, candidates) in workload.knobs.items():
        if tag == "sp":
            found.append((name, tag, list(_nearest(cast("list[tuple[int, ...]]", candidates), sizes[name]))))
        else:
            value = others[name]
            found.append((name, tag, value if value in candidates else cast("int | bool", candidates[0])))
    return tuple(found)


def _nearest(candidates: list[tuple[int, ...]], sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The split whose inner sizes are nearest to those wanted, by their ratios; the innermost counts most."""

    def apart(split: tuple[int, ...]) -> tuple[float, ...]:
        return tuple(max(a / b, b / a) for a, b in zip(reversed(split[1:]), reversed(sizes), strict=True))

    return min(candidates, key=apart)


def _last(value: object) -> int:
    return cast("list[int]", value)[-1]


__all__ = ["Convolution", "MatrixProduct", "TileSizes", "entities_of", "full_split", "tiles_of"]
