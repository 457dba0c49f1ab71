"""
The records in force: who answers which values the knobs of a kernel's schedule take. Tuning implements it.

    with preferring(provider):              # `mlc.records("r.db")` does this
        exe = mlc.compile("model.onnx")

The driver takes the provider that is in force when a compilation begins, and hands it on by value to everything that
the compilation starts: workers, and functions that the vm compiles when it is called. The pass te-read-records asks it
for each kernel, and what was asked (`Asked`) stands in the artefact: a cached one is used again while the answers stay.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from hashlib import sha256
from os import PathLike
from typing import TYPE_CHECKING, Protocol, TypeAlias

from mlc.support.errors import UserError
from mlc.support.registered.plugins import entry_points

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "mlc.records"
"""The entry points of packages of records: any name -> module:NAME, a Provider."""

ALGORITHM = "algorithm"
"""The name of the algorithm among the values of a record; a record of an algorithm alone has it for its strategy."""

RecordKey: TypeAlias = tuple[str, str, int]
"""The hexadecimal sha256 of a kernel's te text, the target's description, the number of threads."""
KnobValues: TypeAlias = Mapping[str, "int | str | tuple[int, ...]"]
"""The values of knobs by name, `strategy` among them."""


class Provider(Protocol):
    """Answers by records; equal questions get equal answers as long as it lives."""

    def best(self, kernel_hash: str, target: str, threads: int) -> KnobValues | None:
        """The values of the record in force for a kernel; None where there is none."""
        ...

    def answer(self, key: RecordKey) -> str:
        """The answer to a question as one text for caches, empty for none; cheaper than `best`, it loads nothing."""
        ...

    def note(self, name: str, key: RecordKey) -> str:
        """Why records of a kernel of that name are not used, in one sentence; empty where there are none."""
        ...


RecordsLike: TypeAlias = "str | PathLike[str] | Provider | bool | None"
"""What a `records=` takes."""

_IN_FORCE: ContextVar[Provider | None] = ContextVar("mlc_records_in_force", default=None)

_PACKAGES: ContextVar[bool] = ContextVar("mlc_records_packages", default=True)

_openers: list[Callable[[str | PathLike[str]], Provider]] = []


def in_force() -> Provider | None:
    """The provider of the context around the call."""
    return _IN_FORCE.get()


def all_in_force() -> Provider | None:
    """The provider of the context around the call, and behind it those of installed packages of records."""
    return chained([in_force(), *(packages() if _PACKAGES.get() else ())])


@contextmanager
def answering(provider: Provider | None) -> Generator[Provider | None]:
    """Let this provider alone answer inside a `with` statement, in this thread; None: nobody answers."""
    token, before = _IN_FORCE.set(provider), _PACKAGES.set(False)
    try:
        yield provider
    finally:
        _IN_FORCE.reset(token)
        _PACKAGES.reset(before)


@contextmanager
def preferring(provider: Provider) -> Generator[Provider]:
    """Let a provider answer inside a `with` statement; what it does not know, those around it are asked."""
    token = _IN_FORCE.set(chained([provider, in_force()]))
    try:
        yield provider
    finally:
        _IN_FORCE.reset(token)


def packages() -> list[Provider]:
    """The providers of installed packages of records, by the names of their entry points."""
    found = sorted(entry_points(GROUP).items())
    return [_loaded(name, point) for name, point in found]


def _loaded(name: str, point: EntryPoint) -> Provider:
    try:
        return point.load()
    except Exception as error:
        raise UserError(f"the records '{name}' ({point.value}) cannot be loaded: {error}") from error


def opens_records(opener: Callable[[str | PathLike[str]], Provider]) -> None:
    """Register the function that opens a database of records: tuning's, which the driver does not import."""
    _openers[:] = [opener]


def open_records(path: str | PathLike[str]) -> Provider:
    """The provider of a database of records; UserError where it is none."""
    return _openers[0](path)


@dataclass(frozen=True)
class Chained:
    """Several providers: the first that knows a kernel answers."""

    providers: tuple[Provider, ...]

    def best(self, kernel_hash: str, target: str, threads: int) -> KnobValues | None:
        """The values of the first record in force."""
        found = (one.best(kernel_hash, target, threads) for one in self.providers)
        return next((values for values in found if values is not None), None)

    def answer(self, key: RecordKey) -> str:
        """All answers, one a line: which of them counts may depend on the strategies' versions."""
        answers = [one.answer(key) for one in self.providers]
        return "\n".join(answers) if any(answers) else ""

    def note(self, name: str, key: RecordKey) -> str:
        """The first sentence."""
        return next(filter(None, (one.note(name, key) for one in self.providers)), "")


def given_records(records: RecordsLike) -> Provider | None:
    """Who answers where a call is given records: None, True: those in force; False: nobody; else these, then those."""
    if records is None or records is True:
        return all_in_force()
    if records is False:
        return None
    if isinstance(records, str | PathLike):
        return chained([open_records(records), all_in_force()])
    if not callable(getattr(records, "best", None)):
        raise UserError(f"expected records to be the path of a database, or False, but got {records!r}")
    return chained([records, all_in_force()])


def chained(providers: Iterable[Provider | None]) -> Provider | None:
    """Several providers as one, the first one asked first; None where there is none."""
    found = tuple(one for one in providers if one is not None)
    return found[0] if len(found) == 1 else Chained(found) if found else None


@dataclass
class Asked:
    """A provider that keeps what it was asked."""

    provider: Provider
    answers: dict[RecordKey, KnobValues | None] = field(default_factory=dict["RecordKey", "KnobValues | None"])
    """The values by key; None for a miss."""

    def best(self, kernel_hash: str, target: str, threads: int) -> KnobValues | None:
        """The provider's answer."""
        values = self.provider.best(kernel_hash, target, threads)
        self.answers[kernel_hash, target, threads] = values
        return values

    def answer(self, key: RecordKey) -> str:
        """The provider's."""
        return self.provider.answer(key)

    def note(self, name: str, key: RecordKey) -> str:
        """The provider's."""
        return self.provider.note(name, key)


@contextmanager
def asking(provider: Provider | None) -> Generator[dict[RecordKey, KnobValues | None]]:
    """Let a provider answer inside a `with` statement; what it was asked, with its answers."""
    asked = None if provider is None else Asked(provider)
    with answering(asked):
        yield {} if asked is None else asked.answers


def json_values(values: KnobValues) -> dict[str, int | str | list[int]]:
    """The values as JSON holds them: tuples are lists."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def answers_digest(provider: Provider, keys: Iterable[RecordKey]) -> str:
    """A digest of the answers to these questions, in any order."""
    return sha256(repr(sorted((key, provider.answer(key)) for key in keys)).encode()).hexdigest()[:32]
