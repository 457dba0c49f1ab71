"""The record of benchmarks/peers.py as a picture: latency over mlc's, by model and number of threads."""

from pathlib import Path
from typing import Any

from contenders import PEERS

_COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#bbbbbb")


def plot(models: list[dict[str, Any]], paths: list[Path]) -> None:
    """Write the picture, in the format that each path's suffix says."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    counts = sorted({record["threads"] for record in models})
    names = [name for name in PEERS if any(name in record["ms"] for record in models)]
    figure, axes = pyplot.subplots(len(counts), 1, figsize=(12, 3.4 * len(counts)), squeeze=False)
    for axis, threads in zip(axes[:, 0], counts, strict=True):
        rows = [record for record in models if record["threads"] == threads and "mlc" in record["ms"]]
        _bars(axis, rows, names)
        axis.set_ylabel(f"latency / mlc's\n{threads} thread{'s' if threads > 1 else ''}")
    axes[0, 0].legend(ncols=len(names), loc="upper left", bbox_to_anchor=(0, 1.2), frameon=False, fontsize=9)
    figure.tight_layout()
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _bars(axis: Any, rows: list[dict[str, Any]], names: list[str]) -> None:
    width = 0.8 / max(1, len(names))
    for index, name in enumerate(names):
        places, heights = [], []
        for place, record in enumerate(rows):
            if name in record["ms"]:
                places.append(place - 0.4 + (index + 0.5) * width)
                heights.append(record["ms"][name]["median"] / record["ms"]["mlc"]["median"])
        axis.bar(places, heights, width, label=name, color=_COLOURS[index % len(_COLOURS)])
        for place, height in zip(places, heights, strict=True):
            axis.annotate(f"{height:.3g}", (place, height), ha="center", va="bottom", fontsize=6, rotation=90)
    axis.set_yscale("log")
    axis.axhline(1, color="black", linewidth=0.8)
    axis.margins(y=0.2)
    axis.set_xticks(range(len(rows)), [record["model"] for record in rows])
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
