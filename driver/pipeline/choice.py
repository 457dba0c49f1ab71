"""
Which passes run, as a command line says it: `--insert`, `--disable`, `--require`, `--config`.

    mlc run net.onnx --load mine.py --insert 'before graph-fuse-ops=my-pass{limit=4}' --disable graph-fold-scale-axis

The texts become a PassContext, which `mlc` enters around its command and mlc-opt applies to the pipeline of `-p`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.passes import ModulePass

from mlc.driver.pipeline.context import PassContext
from mlc.driver.pipeline.pipelines import PIPELINES, compiler_passes
from mlc.driver.pipeline.registry import is_pass, pass_class
from mlc.driver.pipeline.text import PipelineError, Settings, option_value, parse_pipeline
from mlc.support.errors import UserError, did_you_mean


def chosen_context(
    opt_level: int,
    insert: Sequence[str] = (),
    disable: Sequence[str] = (),
    require: Sequence[str] = (),
    config: Sequence[str] = (),
    instruments: Sequence[Any] = (),
) -> PassContext:
    """
    The PassContext that the texts of a command line ask for.

    Raises UserError for an unknown place, pass or option, with the nearest name, and for a `disable` without effect.
    """
    places = _placed(insert)
    inserted = {one.name for texts in places.values() for text in texts for one in parse_pipeline(text)}
    for name in disable:
        _check_disabled(name, inserted)
    values = dict(map(_configured, config))
    return PassContext(opt_level, list(require), list(disable), list(instruments), values, places)


def apply_choice(
    context: PassContext, passes: Sequence[ModulePass], settings: Settings | None = None
) -> list[ModulePass]:
    """
    The passes of a pipeline text as a context wants them; `settings` are the values of `$name` in what it inserts.

    Raises UserError where the pipeline lacks a pass that the context names: a place to insert at, or one to disable.
    """
    insertions = context.insertions()
    here = {one.name for one in passes}
    for where, anchor in insertions:
        if anchor not in here:
            nearest = did_you_mean(anchor, here)
            raise UserError(f"expected '{where} {anchor}' to name a pass of the pipeline that runs{nearest}")
    for name in context.disabled:
        if name not in here | {one.name for extra in insertions.values() for one in extra}:
            nearest = did_you_mean(name, here)
            raise UserError(f"expected --disable to name a pass of the pipeline that runs, but got '{name}'{nearest}")
    return context.configure(passes, settings=settings)


def _placed(texts: Sequence[str]) -> dict[str, list[str]]:
    """`before graph-fuse-ops=my-pass` -> {"before graph-fuse-ops": ["my-pass"]}; those of a place in order."""
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


def _check_disabled(name: str, inserted: set[str]) -> None:
    """UserError unless the compiler runs this pass, or --insert adds it."""
    known = {*compiler_passes(), *inserted}
    if name in PIPELINES:
        listed = f"`mlc-opt --show-pipeline={name}` lists its passes"
        raise UserError(f"expected --disable to name a pass, but '{name}' is a pipeline; {listed}")
    if name not in known:
        what = "which the compiler does not run" if is_pass(name) else "which is no pass"
        nearest = did_you_mean(name, known)
        raise UserError(f"expected --disable to name a pass of the compiler, but got '{name}', {what}{nearest}")


def _configured(text: str) -> tuple[str, Any]:
    """`graph-fuse-ops.max-depth=16` -> the key of a PassContext's config, and the value of the option's type."""
    key, equals, value = text.partition("=")
    name, dot, option = key.rpartition(".")
    if not equals or not dot:
        raise UserError(f"expected --config PASS.OPTION=VALUE, but got '{text}'")
    return f"{name}.{option.replace('_', '-')}", option_value(pass_class(name, PIPELINES), option, value)
