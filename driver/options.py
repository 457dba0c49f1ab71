"""What a compilation is asked to do, apart from the program."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import ceil
from typing import TYPE_CHECKING, Any, cast

from mlc.driver.memory_options import MemoryOptions
from mlc.driver.models.schedules import Schedules
from mlc.support.errors import UserError
from mlc.support.files import read_file
from mlc.support.records import Provider, all_in_force
from mlc.support.registered.plugins import is_plugins
from mlc.support.registered.registrations import have_keys, registrations_key
from mlc.targets.cost.thresholds import UNROLLED_CYCLES
from mlc.targets.device import HOST, Device
from mlc.targets.target import Target, target_text

if TYPE_CHECKING:
    from mlc.driver.pipeline.context import PassContext

LEVELS = ("graph", "te", "loop", "llvm", "llvm-ir", "asm")
"""The textual forms that a compilation can keep."""
EXECUTORS = ("auto", "aot", "graph", "steps", "vm")
"""What runs a model; "auto": "aot", or "vm" where AOT code cannot be made."""
PRECISIONS = ("f32", "bf16", "f16")
"""What contractions may multiply."""


@dataclass(frozen=True)
class Options:
    """Target name, optimisation level 0 to 4, number of threads, the levels whose text is kept, whether to validate."""

    target: str = "native"
    opt_level: int = 3
    threads: int = 1
    keep: frozenset[str] = frozenset()
    validate: bool = False
    """Run every function in the reference interpreters before and after each pass."""
    schedules: Schedules | None = None
    """Handwritten schedules, which replace the schedules of strategies."""
    precision: str = "f32"
    """What contractions multiply: "f32", "bf16", or "f16" (weights only); sums are of f32."""
    error_growth: float = 16.0
    """By how much fast algorithms may enlarge the rounding error of a convolution; 0: direct sums only."""
    context: "PassContext | None" = None
    """What was entered around the compilation: which passes run, with which options, and who watches."""
    parts: bool = True
    """Whether kernels work on parts of buffers (concatenations in place); the graph executor wants whole ones."""
    show_nodes: bool = False
    """Whether the texts that are kept have the source nodes of ops in comments."""
    compilers: tuple[str, ...] = ()
    """The external compilers that may take over parts of the model, in order of preference."""
    show_locations: bool = False
    """Whether they have the locations of ops."""
    devices: tuple[Device, ...] = ()
    """The devices besides the host, on which graph.on_device may place values."""
    memory: MemoryOptions = field(default_factory=MemoryOptions)
    """How memory is planned."""
    records: Provider | None = field(default_factory=all_in_force, compare=False)
    """Who answers which values the knobs of a schedule take: the records in force where the options are made."""

    def __post_init__(self) -> None:
        if isinstance(self.opt_level, bool) or self.opt_level not in range(5):
            raise UserError(f"expected opt_level to be 0 to 4, but got {self.opt_level!r}")
        if self.precision not in PRECISIONS:
            raise UserError(f"expected precision to be one of {', '.join(PRECISIONS)}, but got {self.precision!r}")
        growth = cast("object", self.error_growth)  # callers need not be typed
        if not isinstance(growth, int | float) or not growth >= 0:
            raise UserError(f"expected error_growth to be at least 0, but got {growth!r}")
        object.__setattr__(self, "target", target_text(self.target))

    def model_key(self) -> str:
        """The part of a model's cache key that follows from these options."""
        handed = f" schedules={self.schedules.key()}" if self.schedules else ""
        compilers = f" compilers={'+'.join(self.compilers)}" if self.compilers else ""
        devices = "".join(f" {one.name}={self.on(one.name).key()}@{one.memory}:{one.compiler}" for one in self.devices)
        parts = "" if self.parts else " whole-buffers"
        memory = f" memory={self.memory}"
        own = f"precision={self.precision} error={self.error_growth:g}{parts}{compilers}{memory}{handed}"
        return f"{self.key()} {own}{devices}"

    def on(self, device: str) -> "Options":
        """The options with which the kernels of a device are compiled."""
        target = next((one.target for one in self.devices if one.name == device), self.target)
        return replace(self, target=target.partition(" -host=")[0], devices=())

    def key(self) -> str:
        """The part of a kernel's cache key that follows from these options; its schedule comes on top."""
        context = self.context.key() if self.context is not None else ""
        target = f"target={self.target}{_description(self.target)}"
        own = f"{changed_pipelines()}{registrations_key()}{context}"
        return f"{target} O{self.opt_level} threads={self.threads} {own}"

    @property
    def required(self) -> frozenset[str]:
        """The passes that no instrument may leave out."""
        return frozenset(self.context.required if self.context is not None else ())

    @property
    def instruments(self) -> list[Any]:
        """What watches every pass."""
        return list(self.context.instruments) if self.context is not None else []

    def pipeline(self, part: str) -> list[Any]:
        """The passes of a stage (graph or kernel) at this level, with the settings and as the context wants them."""
        from mlc.driver.pipeline.manager import parse_pipeline
        from mlc.driver.pipeline.pipelines import MAX_LEVEL, PIPELINES

        settings = self.settings()

        def passes(level: int) -> list[Any]:
            names = [f"{part}-O{n}" for n in (*range(level, MAX_LEVEL + 1), *range(level, -1, -1))]
            return parse_pipeline(next(name for name in names if name in PIPELINES), settings)

        found = passes(self.opt_level)
        return found if self.context is None else self.context.configure(found, passes(MAX_LEVEL), settings)

    def settings(self) -> dict[str, str | int | float]:
        """The values of the words `$name` in the pipelines of the compiler (driver/pipeline/pipelines.py)."""
        target, owned = Target.parse(self.target), [one for one in self.devices if one.compiler]
        return {
            "target": target.name,
            "threads": self.threads,
            "precision": self.precision,
            "error-growth": self.error_growth,
            "compilers": "+".join(dict.fromkeys([*(one.compiler for one in owned), *self.compilers])),
            "devices": "+".join([HOST, *(one.name for one in self.devices)]),
            "device-compilers": "+".join(f"{one.name}:{one.compiler}" for one in owned),
            "scopes": "+".join(f"{one.name}:{one.memory}" for one in self.devices),
            "parts": self.parts,
            "vector-bits": target.vector_bits,
            "instructions": ",".join(target.instructions),
            "registers": target.vector_registers,
            "unroll": ceil(UNROLLED_CYCLES * target.core.fmas_per_cycle),
            **self.memory.settings(),
            # the storage ids of the graph executor are the tokens of its plan
            "main-planner": "tokens" if not self.parts and self.memory.planner == "best" else self.memory.planner,
        }


SETTINGS: dict[str, type[str] | type[int] | type[float]] = {
    "target": str,
    "threads": int,
    "precision": str,
    "error-growth": float,
    "memory-planner": str,
    "memory-seed": int,
    "compilers": str,
}
"""The settings that a person gives; the others of `Options.settings` follow from the target."""


def settings_of(given: Iterable[str]) -> dict[str, str | int | float]:
    """The settings that `NAME=VALUE` texts give, and those that follow from them; none where nothing is given."""
    values: dict[str, Any] = {}
    for text in given:
        name, _, value = text.partition("=")
        if name not in SETTINGS:
            raise UserError(f"expected a setting among {', '.join(SETTINGS)}, but got '{text}'")
        try:
            values[name.replace("-", "_")] = tuple(value.split("+")) if name == "compilers" else SETTINGS[name](value)
        except ValueError as error:
            raise UserError(f"expected a number for setting '{name}', but got '{value}'") from error
    memory = {name.removeprefix("memory_"): values.pop(name) for name in list(values) if name.startswith("memory_")}
    return Options(**values, memory=MemoryOptions(**memory)).settings() if values or memory else {}


def current_context() -> "PassContext | None":
    """The mlc.PassContext around the call; a program that made none has not imported it."""
    module = sys.modules.get("mlc.driver.pipeline.context")
    return module.PassContext.current() if module is not None else None


def level_in(context: "PassContext | None", opt_level: int | None) -> int:
    """The level that is asked for: that of the call, of the context around it, or 3."""
    if opt_level is not None:
        return opt_level
    return context.opt_level if context is not None else 3


def changed_pipelines() -> str:
    """What this program made of the pipelines that came with mlc; empty where it left them alone."""
    module = sys.modules.get("mlc.driver.pipeline.pipelines")
    if module is None:
        return ""
    changed = {n: s for n, s in module.PIPELINES.items() if tuple(s) != module.SHIPPED.get(n)}
    return repr(sorted(changed.items())) if changed else ""


def _description(target: str) -> str:
    """The content of a file that describes the target's machine; empty for one by its name, which mlc's sources are."""
    paths = [part.partition(",")[0].strip() for part in target.split(" -host=")]
    return "".join(f" {sha256(read_file(path)).hexdigest()}" for path in paths if path.endswith(".toml"))


def has_own_passes() -> bool:
    """
    Whether this program registered passes, dialects or ops itself, whose code no cache key covers.

    Those of installed plugins and loaded projects are part of the key.
    """
    tables = {
        "mlc.driver.pipeline.registry": ("USER_PASSES", "USER_DIALECTS"),
        "mlc.dialects.own_ops": ("USER_OPS",),
        "mlc.frontends.onnx.table": ("CUSTOM",),
    }
    loaded = [(sys.modules[module], names) for module, names in tables.items() if module in sys.modules]
    own = [one for module, names in loaded for name in names for one in getattr(module, name).values()]
    return any(not is_plugins(getattr(one, "__module__", "")) for one in own) or not have_keys()
