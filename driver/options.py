"""What a compilation is asked to do, apart from the program."""

import dataclasses
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mlc.codegen.errors import fail
from mlc.driver.schedules import Schedules

LEVELS = ("graph", "te", "loop", "llvm", "llvm-ir", "asm")
"""The textual forms that a compilation can keep."""
PRECISIONS = ("f32", "bf16", "f16")
"""What contractions may multiply."""


@dataclass(frozen=True)
class Options:
    """Target name, optimisation level 0 to 3, number of threads, the levels whose text is kept, whether to validate."""

    target: str = "native"
    opt_level: int = 3
    threads: int = 1
    keep: frozenset[str] = frozenset()
    validate: bool = False
    """Run every function in the reference interpreters before and after each pass."""
    schedules: Schedules | None = None
    """Schedules by hand, which stand in for those of the strategies."""
    precision: str = "f32"
    """What contractions multiply: "f32", "bf16", or "f16" (weights only); sums are of f32."""

    error_growth: float = 16.0
    """By how much fast algorithms may enlarge the rounding error of a convolution; 0: direct sums only."""

    def __post_init__(self) -> None:
        if self.opt_level not in range(4):
            fail(f"expected opt_level to be 0, 1, 2 or 3, but got {self.opt_level!r}")
        if self.precision not in PRECISIONS:
            fail(f"expected precision to be one of {', '.join(PRECISIONS)}, but got {self.precision!r}")
        if not self.error_growth >= 0:
            fail(f"expected error_growth to be at least 0, but got {self.error_growth!r}")
        if not isinstance(self.target, str):
            fail(f"expected target to be a name like 'native' or 'x86-64-v3', but got {self.target!r}")

    def model_key(self) -> str:
        """The part of a model's cache key that these options are."""
        handed = f" schedules={self.schedules.key()}" if self.schedules else ""
        return f"{self.key()} precision={self.precision} error={self.error_growth:g}{handed}"

    def key(self) -> str:
        """The part of a kernel's cache key that these options are; its schedule comes on top."""
        return f"target={self.target} O{self.opt_level} threads={self.threads} {changed_pipelines()}"

    def pipeline(self, part: str) -> list[Any]:
        """The passes of `graph-O3` or `kernel-O3`; their options `target`, `threads`, `vector-bits` are set."""
        from mlc.passes.manager import parse_pipeline
        from mlc.passes.pipelines import PIPELINES

        levels = [f"{part}-O{level}" for level in range(self.opt_level, 4)]
        name = next((level for level in levels if level in PIPELINES), f"{part}-O{self.opt_level}")
        return self.configure(parse_pipeline(name))

    def configure(self, passes: Iterable[Any]) -> list[Any]:
        """The passes with the options that the target decides, where the pipeline left them at their defaults."""
        from mlc.codegen.targets import Target

        target = Target.parse(self.target)
        values = {
            "target": self.target,
            "threads": self.threads,
            "vector_bits": target.vector_bits,
            "precision": self.precision,
            "error_growth": self.error_growth,
            "instructions": ",".join(target.instructions),
        }
        result: list[Any] = []
        for one in passes:
            mine = {f.name: values[f.name] for f in dataclasses.fields(one) if f.name in values and _is_default(one, f)}
            result.append(dataclasses.replace(one, **mine) if mine else one)
        return result


def changed_pipelines() -> str:
    """What this program made of the pipelines that came with mlc; empty where it left them alone."""
    module = sys.modules.get("mlc.passes.pipelines")
    if module is None:
        return ""
    changed = {n: s for n, s in module.PIPELINES.items() if tuple(s) != module.SHIPPED.get(n)}
    return repr(sorted(changed.items())) if changed else ""


def has_own_passes() -> bool:
    """Whether this program has registered passes of its own: what they do is not in any key."""
    registry = sys.modules.get("mlc.passes.registry")
    return registry is not None and bool(registry.USER_PASSES)


def _is_default(one: Any, field: "dataclasses.Field[Any]") -> bool:
    return getattr(one, field.name) == field.default
