"""What a forked process does with candidates: link them, check their outputs, and time them in turns."""

from __future__ import annotations

import ctypes
import json
import mmap
import signal
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil
from typing import Any

import numpy as np

from mlc.codegen.jit import JitCode, load_libraries
from mlc.runtime.code import Code
from mlc.runtime.cpu import missing_features
from mlc.runtime.functions import CalledFunctions
from mlc.runtime.peaks import is_near, measure_handover_ns
from mlc.runtime.sizes import symbolic_buffer_bytes
from mlc.support.abi import KERNEL, RuntimeStruct
from mlc.support.errors import UserError
from mlc.support.threads import available_cpus
from mlc.targets.cpu_features import used_features
from mlc.targets.target import Target
from mlc.tuning.farm import Evaluation
from mlc.tuning.measure.artefact import Artefact, RunOutcome, Signature, TensorInfo
from mlc.tuning.measure.check import Reference
from mlc.tuning.measure.child import Ended
from mlc.tuning.measure.evaluator import KernelFailed, Timer, time_evaluator
from mlc.tuning.measure.regions import POISON, Array, ArrayRegion, GuardedRegion, scratch_region
from mlc.tuning.results import ErrorCode
from mlc.tuning.task import PackedInput

_ROUND_ATTEMPTS = 3
"""How often a round of a comparison is run at most, while the CPUs' distance changes."""
_HANDOVERS = 2000
"""Hand-overs of a cache line by which the distance of two CPUs is told: far from near differs by a factor of 4."""
_NOTE_BYTES = 1 << 16
_NOTE_HEAD = 32
"""The address, the signal, the candidate, and the length of the list of regions behind them: 8 bytes each."""
_FAULTS = (signal.SIGSEGV, signal.SIGBUS)
_SA_SIGINFO, _SA_ONSTACK = 4, 0x08000000


class LinkFailed(Exception):
    """An artefact cannot be loaded on this machine."""


class _SigAction(ctypes.Structure):
    """Linux's struct sigaction, in the C library's form on 64-bit machines."""

    _fields_ = [
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_char * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    ]


class CrashNote:
    """What a dead process leaves its parent: the candidate that ran, and the memory that it should not touch."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _NOTE_BYTES)
        self._anchor = ctypes.c_char.from_buffer(self._memory)

    def watch(self, timer: Timer) -> None:
        """In the forked process: note the address of a wild access."""
        self._memory[:_NOTE_HEAD] = bytes(_NOTE_HEAD)
        if sys.platform != "linux":
            return
        ctypes.c_void_p.from_address(timer.fault_note).value = ctypes.addressof(self._anchor)
        action = _SigAction(timer.fault_handler, b"", _SA_SIGINFO | _SA_ONSTACK, None)
        for number in _FAULTS:
            ctypes.CDLL(None).sigaction(int(number), ctypes.byref(action), None)

    def running(self, candidate: int) -> None:
        """Note the number of the candidate that runs now."""
        self._memory[16:24] = struct.pack("q", candidate)

    def regions(self, regions: Mapping[str, GuardedRegion]) -> None:
        """Note where arrays are."""
        places = [(r.address, r.size, r.length, name) for name, r in regions.items()]
        data = json.dumps(places).encode()
        if len(data) <= _NOTE_BYTES - _NOTE_HEAD:
            self._memory[24:32] = struct.pack("q", len(data))
            self._memory[_NOTE_HEAD : _NOTE_HEAD + len(data)] = data

    @property
    def candidate(self) -> int:
        """The number of the candidate that ran last."""
        return struct.unpack("q", self._memory[16:24])[0]

    @property
    def place(self) -> str:
        """The memory that a candidate should not have touched: `16 bytes behind the end of output 0`."""
        address, number, _, length = struct.unpack("Qqqq", self._memory[:_NOTE_HEAD])
        if not number:
            return ""
        for first, size, reach, name in json.loads(self._memory[_NOTE_HEAD : _NOTE_HEAD + length] or b"[]"):
            offset = address - first
            if 0 <= offset < size:
                return f"{offset} bytes into {name}, which it may only read"
            if -reach - mmap.PAGESIZE <= offset < size + mmap.PAGESIZE:
                beyond = offset - size
                return f"{beyond} bytes behind the end of {name}" if beyond >= 0 else f"{-offset} bytes before {name}"
        return f"at {address:#x}"


def _handover(probes: Code | None) -> float | None:
    """Nanoseconds that a cache line takes between two CPUs; None where that is not asked, or there is one CPU."""
    return None if probes is None or available_cpus() < 2 else measure_handover_ns(probes, _HANDOVERS)


@dataclass
class TaskArrays:
    """The inputs of a task, the default kernel's outputs, and the best time so far."""

    signature: Signature
    inputs: list[ArrayRegion]
    reference: Reference
    best: float = float("inf")
    """Seconds of the fastest candidate that ran here."""
    packed: dict[PackedInput, ArrayRegion] = field(default_factory=dict["PackedInput", ArrayRegion])
    """The inputs that algorithms read in another form than the direct sum."""
    error_growth: float = 1.0
    """By how much the error of the outputs may exceed that of the direct sum."""

    def inputs_of(self, artefact: Artefact) -> list[ArrayRegion]:
        """The inputs as an artefact reads them."""
        form = artefact.packed
        if form is None:
            return self.inputs
        if form not in self.packed:
            array = packed(form, self.inputs[form.number].array)
            self.packed[form] = ArrayRegion(TensorInfo(array.shape, str(array.dtype)))
            self.packed[form].array[...] = array
        return [*self.inputs[: form.number], self.packed[form], *self.inputs[form.number + 1 :]]

    def pack_again(self) -> None:
        """Bring inputs in other forms up to date."""
        for form, region in self.packed.items():
            region.array[...] = packed(form, self.inputs[form.number].array)

    @property
    def bytes(self) -> int:
        """What the arrays take."""
        return sum(r.size for r in (*self.inputs, *self.packed.values())) + sum(
            a.nbytes for a in self.reference.outputs
        )


def packed(form: PackedInput, weight: Array) -> Array:
    """A direct sum's weight, `OIHW<i>i<o>o`, as an algorithm reads it."""
    from mlc.dialects.graph.ops.winograd import MATRICES, transformed_weight

    o, i, height, width, inner, outer = weight.shape
    plain = weight.transpose(0, 5, 1, 4, 2, 3).reshape(o * outer, i * inner, height, width)
    g = np.array(MATRICES[form.tile][1], np.float32)
    return np.ascontiguousarray(transformed_weight(np, plain, g, form.block_in, form.block_out))


class LoadedKernel:
    """An artefact linked into this process, with arrays to call it on."""

    def __init__(
        self,
        artefact: Artefact,
        symbols: Sequence[int],
        inputs: Sequence[GuardedRegion],
        outputs: Sequence[GuardedRegion],
    ) -> None:
        code = link(artefact)
        self.inputs, self.outputs = inputs, outputs
        self._functions = CalledFunctions(artefact.functions)
        static, threads = artefact.workspace_bytes, artefact.threads
        self.workspace = GuardedRegion(static + symbolic_buffer_bytes(artefact.symbolic_bytes, symbols, threads))
        self.scratch, stride = scratch_region(artefact.scratch_bytes, threads)
        rt, self._keeper = code.runtime(threads, 0)
        self._functions.attach(rt)
        self._functions.check(f"'{artefact.name}'")
        self._struct = RuntimeStruct.from_buffer_copy(RuntimeStruct.from_address(rt))
        self._struct.scratch, self._struct.scratch_stride = self.scratch.address, stride
        self.rt = ctypes.addressof(self._struct)
        operands = [*(r.address for r in (*inputs, *outputs)), *symbols, self.workspace.address]
        self._operands = (ctypes.c_void_p * len(operands))(*operands)
        self.args = ctypes.addressof(self._operands)
        self.address = code.address(artefact.name)
        self._call = KERNEL(self.address)
        self._code = code
        self.error_growth = artefact.error_growth

    def __call__(self) -> None:
        """One call; KernelFailed if it returns an error or has written beside its arrays."""
        if status := self._call(self.args, self.rt):
            raise KernelFailed(f"the kernel returned error {status}")
        self.check_guards()

    @property
    def regions(self) -> dict[str, GuardedRegion]:
        """All of its memory by name."""
        inputs = {f"input {k}": region for k, region in enumerate(self.inputs)}
        outputs = {f"output {k}": region for k, region in enumerate(self.outputs)}
        return inputs | outputs | {"its workspace": self.workspace, "its scratch memory": self.scratch}

    def check_guards(self) -> None:
        """KernelFailed if a byte beside an array has changed."""
        for name, region in self.regions.items():
            if not region.intact():
                raise KernelFailed(f"the kernel writes beside {name}")


def link(artefact: Artefact) -> Code:
    """Link an artefact into this process; LinkFailed where this machine lacks a feature of the CPU or a symbol."""
    target = Target.parse(artefact.target)
    reason = missing_features(used_features(target.architecture, target.cpu, target.features), target.architecture)
    if reason is not None:
        raise LinkFailed(reason)
    try:
        load_libraries(artefact.libraries)
        code = JitCode(artefact.objects)
        code.address(artefact.name)
    except (UserError, RuntimeError) as error:
        raise LinkFailed(str(error)) from error
    return code


class Trials:
    """Candidates of one task, in a process of their own; `note` tells the parent which of them ended it."""

    def __init__(self, task: TaskArrays, timer: Timer, note: CrashNote, evaluation: Evaluation) -> None:
        self.task, self.timer, self.note, self.evaluation = task, timer, note, evaluation
        note.watch(timer)
        self.outputs = [ArrayRegion(info) for info in task.signature.outputs]
        self._calls: dict[int, int] = {}
        """The calls in a timed loop of each candidate, as the round before found them."""

    def run(self, artefacts: Sequence[Artefact], rounds: int, probes: Code | None) -> list[list[RunOutcome]]:
        """For each candidate its outcome in each round; all are checked before one is timed."""
        kernels = [self._checked(k, artefact) for k, artefact in enumerate(artefacts)]
        found: list[list[RunOutcome]] = [[] if isinstance(k, LoadedKernel) else [k] * rounds for k in kernels]
        for turn in range(rounds):
            for number, outcome in self._round(turn, kernels, rounds == 1, probes).items():
                found[number].append(outcome)
        return found

    def _round(
        self, turn: int, kernels: Sequence[LoadedKernel | RunOutcome], stops_early: bool, probes: Code | None
    ) -> dict[int, RunOutcome]:
        """
        The outcome of each candidate in a round, every other round in reverse order.

        A hypervisor moves CPUs: a round in which they come near to each other, or part, is run again.
        """
        order = [k for k, kernel in enumerate(kernels) if isinstance(kernel, LoadedKernel)]
        found: dict[int, RunOutcome] = {}
        before = _handover(probes)
        for _ in range(_ROUND_ATTEMPTS):
            for number in order if turn % 2 == 0 else order[::-1]:
                kernel = kernels[number]
                assert isinstance(kernel, LoadedKernel)
                found[number] = replace(self._timed(number, kernel, stops_early), handover_ns=before)
            after = _handover(probes)
            if before is None or after is None or is_near(before) == is_near(after):
                break
            before = after
        return found

    def _checked(self, number: int, artefact: Artefact) -> LoadedKernel | RunOutcome:
        """A candidate that computes what it should, or why it does not."""
        self.note.running(number)
        try:
            inputs = self.task.inputs_of(artefact)
            kernel = LoadedKernel(artefact, self.task.signature.symbols, inputs, self.outputs)
            self.note.regions(kernel.regions)
            for region in self.outputs:
                region.bytes[:] = POISON
            kernel()
        except Exception as error:
            return failed(error)
        return self._difference(kernel) or kernel

    def _difference(self, kernel: LoadedKernel) -> RunOutcome | None:
        growth = max(self.task.error_growth, kernel.error_growth)
        found = self.task.reference.difference(self._arrays(), growth)
        return None if found is None else RunOutcome((), ErrorCode.WRONG_ANSWER, str(found))

    def _arrays(self) -> list[Array]:
        return [region.array for region in self.outputs]

    def _timed(self, number: int, kernel: LoadedKernel, stops_early: bool) -> RunOutcome:
        """The times of a candidate, whose outputs must still be right afterwards."""
        self.note.running(number)
        self.note.regions(kernel.regions)
        timer, evaluation = self.timer, self.evaluation
        arrays = [(r.address, r.size) for r in (*kernel.inputs[1:], *self.outputs)]
        flush = partial(timer.flush, arrays) if evaluation.flush_cache else None
        factor = evaluation.stop_factor if stops_early else 0.0
        slower = factor * self.task.best if factor else float("inf")
        try:
            seconds = time_evaluator(
                lambda count: timer.nanoseconds(kernel.address, kernel.args, kernel.rt, count),
                replace(evaluation, number=self._calls.get(number, evaluation.number)),
                flush,
                slower,
            )
            kernel.check_guards()
        except Exception as error:
            return failed(error)
        self._calls[number] = max(evaluation.number, ceil(evaluation.min_repeat_ms / 1e3 / max(seconds[-1], 1e-9)))
        return self._difference(kernel) or RunOutcome(seconds)


def failed(error: Exception) -> RunOutcome:
    """The outcome of a candidate that raised an exception in its process."""
    if isinstance(error, LinkFailed):
        return RunOutcome((), ErrorCode.COMPILE_DEVICE, str(error))
    if isinstance(error, MemoryError | OSError):
        return RunOutcome((), ErrorCode.RUNTIME_DEVICE, f"expected memory for the kernel, but got none: {error}")
    if isinstance(error, KernelFailed | UserError):
        return RunOutcome((), ErrorCode.RUNTIME_DEVICE, str(error))
    return RunOutcome((), ErrorCode.UNKNOWN_ERROR, f"{type(error).__name__}: {error}")


def outcome_of(ended: Ended[Any], evaluation: Evaluation, place: str = "") -> RunOutcome:
    """The outcome of a candidate whose process gave none."""
    if ended.timed_out:
        return RunOutcome((), ErrorCode.RUN_TIMEOUT, f"the kernel ran longer than {evaluation.run_timeout_s:g} s")
    wild = f": it touches memory {place}" if place else ""
    return RunOutcome((), ErrorCode.RUNTIME_DEVICE, f"the kernel ended its process with {ended.died}{wild}")
