"""
Which passes run, as a command line says it: `--insert`, `--disable`, `--require`, `--config`.

    mlc run net.onnx --load mine.py --insert 'before graph-fuse-ops=my-pass{limit=4}' --disable graph-fold-scale-axis

The texts become a PassContext, which `mlc` enters around its command and mlc-opt applies to the pipeline of `-p`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from mlc.driver.pipeline.context import PassContext
from mlc.driver.pipeline.pipelines import PIPELINES, compiler_passes
from mlc.driver.pipeline.registry import is_pass, pass_class
from mlc.driver.pipeline.text import PipelineError, option_value, parse_pipeline
from mlc.support.errors import UserError, did_you_mean


def chosen_context(
    opt_level: int,
    insert: Sequence[str] = (),
    disable: Sequence[str] = (),
    require: Sequence[str] = (),
    config: Sequence[str] = (),
    instruments: Sequence[Any] = (),
    runs: Iterable[str] | None = None,
) -> PassContext:
    """
    The PassContext that the texts of a command line ask for; `runs` are the passes to choose from: the compiler's.

    Raises UserError for an unknown place, pass or option, with the nearest name, and for one that would have no effect.
    """
    places = _placed(insert)
    here = set(compiler_passes() if runs is None else runs)
    known = here | {one.name for texts in places.values() for text in texts for one in parse_pipeline(text)}
    for name in disable:
        _check_runs("--disable", name, known)
    if runs is not None:
        for place in places:
            _check_runs("--insert", place.partition(" ")[2], here)
        for name in require:
            _check_runs("--require", name, known)
    values = dict(map(_configured, config))
    for key in values:
        _check_runs("--config", key.rpartition(".")[0], known)
    return PassContext(opt_level, list(require), list(disable), list(instruments), values, places)


def _placed(texts: Sequence[str]) -> dict[str, list[str]]:
    """`before graph-fuse-ops=my-pass` -> {"before graph-fuse-ops": ["my-pass"]}, in the order of the texts."""
    places: dict[str, list[str]] = {}
    for text in texts:
        place, equals, pipeline = text.partition("=")
        where, _, anchor = place.strip().partition(" ")
        if not equals or where not in ("before", "after") or not anchor.strip():
            raise UserError(f"expected --insert 'before PASS=PIPELINE' or 'after PASS=PIPELINE', but got '{text}'")
        try:
            parse_pipeline(pipeline)
        except PipelineError as error:
            raise UserError(f"--insert '{text}': {error}") from error
        places.setdefault(f"{where} {anchor.strip()}", []).append(pipeline)
    return places


def _check_runs(option: str, name: str, known: Collection[str]) -> None:
    """UserError unless a pass is among those that run."""
    if name in PIPELINES and name not in known:
        listed = f"`mlc-opt --show-pipeline={name}` lists its passes"
        raise UserError(f"expected {option} to name a pass, but '{name}' is a pipeline; {listed}")
    if name not in known:
        what = "which does not run here" if is_pass(name) else "which is no pass"
        raise UserError(
            f"expected {option} to name a pass that runs, but got '{name}', {what}{did_you_mean(name, known)}"
        )


def _configured(text: str) -> tuple[str, Any]:
    """`graph-fuse-ops.max-depth=16` -> the key of a PassContext's config, and the value of the option's type."""
    key, equals, value = text.partition("=")
    name, dot, option = key.rpartition(".")
    if not equals or not dot:
        raise UserError(f"expected --config PASS.OPTION=VALUE, but got '{text}'")
    return f"{name}.{option.replace('_', '-')}", option_value(pass_class(name, PIPELINES), option, value)
