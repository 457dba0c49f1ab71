"""
graph-plan-devices: every value gets a device, and a value that is needed on another one is copied there.

Goes in: graph functions with constraints (`graph.on_device`, `graph.device_copy`). Comes out: `graph.device` on every
op and argument, a `graph.device_copy` at each crossing, and no `graph.on_device`.

The operands and results of an op are on one device. graph.on_device and graph.device_copy alone join values of two.
Control flow, and the conditions that it reads, are on the host. Weights and constants are wherever they are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.attributes import EXTERNAL_COMPILER, GRAPH_DEVICE, GRAPH_KERNEL
from mlc.dialects.graph import CallOp, ControlOp, DeviceCopyOp, GraphOp, OnDeviceOp, YieldOp
from mlc.dialects.syntax.source_nodes import location_names
from mlc.passes.graph.shared.constants import SOURCES
from mlc.passes.rewriting import functions, outer_blocks
from mlc.support.errors import UserError, did_you_mean, fail

DEFAULT_DEVICE = "cpu"
"""The device of values that no constraint reaches, and the host."""


@dataclass(eq=False)
class Domain:
    """A set of values that are on one device; of the domains that were joined, one stands for all."""

    device: str = ""
    cause: Operation | None = None
    """The op that demands the device."""
    joined: Domain | None = None

    def root(self) -> Domain:
        """The domain that stands for this one."""
        domain = self
        while domain.joined is not None:
            domain = domain.joined
        if domain is not self:
            self.joined = domain
        return domain


@dataclass
class DevicePlanner:
    """
    One run over a module; `devices` are those that may be named, if they are known.

    `compilers` gives the devices whose kernels an external compiler makes, by the compiler's name.
    """

    module: ModuleOp
    devices: Sequence[str]
    host: str
    compilers: Mapping[str, str] = field(default_factory=dict[str, str])
    values: dict[SSAValue, Domain] = field(default_factory=dict[SSAValue, Domain])
    uses: dict[tuple[Operation, int], Domain] = field(default_factory=dict[tuple[Operation, int], Domain])
    """The domain in which an op reads an operand."""
    copies: dict[tuple[SSAValue, str], SSAValue] = field(default_factory=dict[tuple[SSAValue, str], SSAValue])
    """(value, device) -> the value on that device."""

    def run(self) -> None:
        """Solve the constraints, then write devices and copies."""
        self.functions = {f.sym_name.data: f for f in functions(self.module) if GRAPH_KERNEL not in f.attributes}
        self.external = external_functions(self.module, self.compilers)
        blocks = [block for f in self.functions.values() for block in outer_blocks(f)]
        for op in [op for block in blocks for op in block.ops if self.compiler_of(op)]:
            fence(op, self.compilers[self.compiler_of(op)])
        ops = [op for block in blocks for op in block.ops]
        for op in ops:
            self.constrain(op)
        for function in self.functions.values():
            self.write_arguments(function)
        for op in ops:
            self.rewrite(op)
        own_copies = set(self.copies.values())
        for block in blocks:
            for op in reversed(list(block.ops)):
                needless = isinstance(op, SOURCES) or (isinstance(op, DeviceCopyOp) and op.result in own_copies)
                if isinstance(op, OnDeviceOp) or (needless and not any(True for _ in op.results[0].uses)):
                    op.detach()
                    op.erase()

    # --- constraints ---

    def of(self, value: SSAValue) -> Domain:
        """The domain of a value."""
        return self.values.setdefault(value, Domain()).root()

    def fixed(self, device: str, cause: Operation | None = None) -> Domain:
        """A new domain on a device that an op demands."""
        if cause is not None and self.devices and device not in self.devices:
            known = ", ".join(self.devices)
            nearest = did_you_mean(device, self.devices)
            fail(cause, f"expected a device of the program ({known}), but got '{device}'{nearest}")
        return Domain(device, cause)

    def join(self, first: Domain, second: Domain, at: Operation) -> None:
        """Put two domains on one device."""
        first, second = first.root(), second.root()
        if first is second:
            return
        if first.device and second.device and first.device != second.device:
            fail(
                at,
                f"expected the operands and results of {_text(at)} on one device, but {_cause(first)} and "
                f"{_cause(second)}; a graph.on_device between them, with a free result, allows a copy",
            )
        if not first.device:
            first, second = second, first
        second.joined = first

    def constrain(self, op: Operation) -> None:
        """Note what an op demands of its operands and results."""
        match op:
            case OnDeviceOp():
                self.ends(op, op.device if op.constrain_body else "", op.device if op.constrain_result else "")
            case DeviceCopyOp():
                self.ends(op, op.src, op.dst)
            case ReturnOp():
                function = op.parent_op()
                main = isinstance(function, FuncOp) and function.sym_name.data == "main"
                for index, value in enumerate(op.operands):
                    self.uses[op, index] = Domain(self.host) if main else self.read(value, self.of(value), op)
            case CallOp() if (callee := self.functions.get(op.callee.string_value())) is not None:
                self.call(op, callee)
            case ControlOp() | YieldOp():
                for index in range(len(op.operands)):
                    self.uses[op, index] = Domain(self.host)
                for value in [*op.results, *(a for region in op.regions for a in region.block.args)]:
                    self.join(self.of(value), Domain(self.host), op)
            case _:
                own = Domain()
                for index, value in enumerate(op.operands):
                    self.uses[op, index] = self.read(value, own, op)
                for result in op.results if op.operands else ():
                    self.join(own, self.of(result), op)

    def compiler_of(self, op: Operation) -> str:
        """The compiler of a device that made the function that an op calls; "" for other ops."""
        found = self.external.get(op.callee.string_value()) if isinstance(op, CallOp) else None
        return "" if found is None else compiler_name(found)

    def ends(self, op: GraphOp, source: str, destination: str) -> None:
        """Constrain the operand and the result of an op apart from each other; "" leaves one free."""
        own = self.fixed(source, op) if source else Domain()
        self.uses[op, 0] = self.read(op.operands[0], own, op)
        self.join(self.fixed(destination, op) if destination else Domain(), self.of(op.result), op)

    def read(self, value: SSAValue, domain: Domain, op: Operation) -> Domain:
        """The domain in which an op reads a value: its own; a weight or constant is on any device."""
        if not isinstance(value.owner, SOURCES):
            self.join(domain, self.of(value), op)
        return domain

    def call(self, op: CallOp, callee: FuncOp) -> None:
        """The operands and results of a call are where the function's arguments and results are."""
        for index, (value, argument) in enumerate(zip(op.operands, callee.body.block.args, strict=True)):
            self.uses[op, index] = self.read(value, self.of(argument), op)
        last = callee.body.block.last_op
        assert last is not None
        for result, value in zip(op.results, last.operands, strict=True):
            self.join(self.of(result), self.of(value), op)

    # --- devices and copies ---

    def device(self, domain: Domain) -> str:
        """The device of a domain; the host where nothing demands one."""
        return domain.root().device or self.host

    def rewrite(self, op: Operation) -> None:
        """Write the device of an op, and let it read its operands there."""
        if isinstance(op, SOURCES):
            return
        devices = [self.device(self.uses[op, index]) for index in range(len(op.operands))]
        for index, (value, device) in enumerate(zip(list(op.operands), devices, strict=True)):
            op.operands[index] = self.on(value, device)
        if isinstance(op, OnDeviceOp | DeviceCopyOp):
            (source,), destination = devices, self.device(self.of(op.result))
            value = self.copied(op.operands[0], source, destination)
            if isinstance(op, OnDeviceOp):
                op.result.replace_all_uses_with(value)
            else:
                self.keep(op, value)
        elif not isinstance(op, ReturnOp | YieldOp):
            where = self.device(self.of(op.results[0])) if op.results else self.host
            op.attributes[GRAPH_DEVICE] = StringAttr(where)
            self.check(op, where)

    def check(self, op: Operation, device: str) -> None:
        """UserError for an op on a device whose compiler does not take it; a kernel of one gets its device."""
        if self.compiler_of(op):
            assert isinstance(op, CallOp)
            self.external[op.callee.string_value()].attributes[GRAPH_DEVICE] = StringAttr(device)
            return
        for compiler, owned in self.compilers.items():
            if device == owned:
                fail(
                    op,
                    f"expected ops that compiler '{compiler}' takes on device '{device}', but none of its patterns "
                    f"matches {_text(op)}",
                )

    def keep(self, op: DeviceCopyOp, value: SSAValue) -> None:
        """Replace a copy that stands in the text by the one copy of its operand to the device."""
        if value.name_hint is None:
            value.name_hint = op.result.name_hint
        op.result.replace_all_uses_with(value)
        op.detach()
        op.erase()

    def on(self, value: SSAValue, device: str) -> SSAValue:
        """A value on a device: a clone of a weight or constant, a copy of an argument or a result elsewhere."""
        if isinstance(value.owner, SOURCES):
            return self.source(value, device)
        return self.copied(value, self.device(self.of(value)), device)

    def source(self, value: SSAValue, device: str) -> SSAValue:
        """A weight or constant on a device; the first device gets the op itself."""
        op = value.owner
        assert isinstance(op, SOURCES)
        held = op.attributes.setdefault(GRAPH_DEVICE, StringAttr(device))
        if held == StringAttr(device):
            return value
        if (value, device) not in self.copies:
            clone = op.clone()
            clone.location = op.location
            clone.attributes[GRAPH_DEVICE] = StringAttr(device)
            _insert_after(value, clone)
            self.copies[value, device] = clone.results[0]
        return self.copies[value, device]

    def copied(self, value: SSAValue, source: str, destination: str) -> SSAValue:
        """A value on another device; each is copied there once, and never back."""
        if source == destination:
            return value
        if isinstance(value.owner, SOURCES):
            return self.source(value, destination)
        if isinstance(value.owner, DeviceCopyOp) and value.owner.src == destination:
            return value.owner.operands[0]
        if (value, destination) not in self.copies:
            copy = DeviceCopyOp.make(value, src=source, dst=destination)
            copy.attributes[GRAPH_DEVICE] = StringAttr(destination)
            if isinstance(value.owner, Operation):
                copy.location = value.owner.location
            _insert_after(value, copy)
            self.copies[value, destination] = copy.result
            self.values[copy.result] = Domain(destination)
        return self.copies[value, destination]

    def write_arguments(self, function: FuncOp) -> None:
        """
        Write the devices of a function's arguments and results.

        Those of @main are on the host, from which the arguments are copied to where they are read.
        """
        arguments, results = function.body.block.args, list(function.function_type.outputs)
        main = function.sym_name.data == "main"
        devices = [self.device(self.of(argument)) for argument in arguments]
        last = function.body.block.last_op
        assert last is not None
        ends = [self.device(self.uses[last, index]) for index in range(len(results))]
        function.arg_attrs = _with_devices(function.arg_attrs, [self.host] * len(devices) if main else devices)
        function.res_attrs = _with_devices(function.res_attrs, ends)
        if not main:
            return
        for argument, device in zip(arguments, devices, strict=True):
            if device != self.host:
                uses = [use for use in argument.uses if self.device(self.uses[use.operation, use.index]) == device]
                copy = self.copied(argument, self.host, device)
                for use in uses:
                    use.operation.operands[use.index] = copy
            self.values[argument] = Domain(self.host)


def _with_devices(attrs: ArrayAttr[DictionaryAttr] | None, devices: Sequence[str]) -> ArrayAttr[DictionaryAttr]:
    records: list[Mapping[str, Attribute]] = (
        [{}] * len(devices) if attrs is None else [record.data for record in attrs.data]
    )
    return ArrayAttr(
        [DictionaryAttr({**r, GRAPH_DEVICE: StringAttr(d)}) for r, d in zip(records, devices, strict=True)]
    )


def _insert_after(value: SSAValue, op: Operation) -> None:
    """Insert an op behind what gives a value: another op, or the begin of the block."""
    if isinstance(value, BlockArgument):
        block, first = value.block, value.block.first_op
        assert first is not None
        block.insert_op_before(op, first)
    else:
        owner = value.owner
        assert isinstance(owner, Operation)
        assert isinstance(owner.parent, Block)
        owner.parent.insert_op_after(op, owner)


def _text(op: Operation) -> str:
    names = list(location_names(op.location))
    return f"{op.name} '{names[0]}'" if names else op.name


def _cause(domain: Domain) -> str:
    """What demands a domain's device."""
    op = domain.cause
    if op is None:
        return f"control flow needs '{domain.device}'"
    value = op.operands[0]
    hint = f"%{value.name_hint}" if value.name_hint else None
    of = hint or ("an argument" if isinstance(value.owner, Block) else f"the result of {_text(value.owner)}")
    return f"{op.name} of {of} demands '{domain.device}'"


def fence(call: Operation, device: str) -> None:
    """Hold the operands and results of a call on a device, whatever computes or reads them elsewhere."""
    block = call.parent
    assert block is not None
    for index, value in enumerate(list(call.operands)):
        given = OnDeviceOp.make(value, device=device, constrain_body=False, constrain_result=True)
        given.location = call.location
        block.insert_op_before(given, call)
        call.operands[index] = given.result
    for result in call.results:
        uses = list(result.uses)
        taken = OnDeviceOp.make(result, device=device)
        taken.location = call.location
        block.insert_op_after(taken, call)
        for use in uses:
            use.operation.operands[use.index] = taken.result


def compiler_name(function: FuncOp) -> str:
    """The external compiler of a function; "" where mlc compiles it."""
    name = function.attributes.get(EXTERNAL_COMPILER)
    return name.data if isinstance(name, StringAttr) else ""


def external_functions(module: ModuleOp, compilers: Mapping[str, str]) -> dict[str, FuncOp]:
    """The functions that the compilers of devices make, by name."""
    found = [op for op in module.body.block.ops if isinstance(op, FuncOp) and compiler_name(op) in compilers]
    return {function.sym_name.data: function for function in found}


def parse_compilers(text: str) -> dict[str, str]:
    """`npu:toy+dsp:other` as compiler -> device; UserError for another text."""
    compilers: dict[str, str] = {}
    for item in text.split("+") if text else ():
        device, _, compiler = item.partition(":")
        if not device or not compiler:
            raise UserError(f"expected compilers like npu:toy+dsp:other, but got '{item}'")
        compilers[compiler] = device
    return compilers


@dataclass(frozen=True)
class PlanDevicesPass(ModulePass):
    """
    Give every value a device, and copy values to where they are read, each at most once to a device.

    `%1 = graph.add %a, %b; %2 = graph.on_device %1 {device = "npu"}; %3 = graph.add %2, %c`
    ->  `%1 = graph.add %a1, %b1 {graph.device = "npu"}; %2 = graph.device_copy %1 {src = "npu", dst = "cpu"}; ..`

    `devices`: the names that constraints may use, joined by +, the host's first; without them any name is one, and the
    host is cpu. The host is where @main's arguments and results are, and whatever no constraint reaches. A module
    without constraints stays as it is.

    `compilers`, as in npu:toy, names the external compilers that make the kernels of a device: calls of the functions
    that graph-partition made for them are there, and nothing else may be.
    """

    name = "graph-plan-devices"
    devices: str = ""
    compilers: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        names = self.devices.split("+") if self.devices else []
        compilers = parse_compilers(self.compilers)
        constrained = any(isinstance(inner, OnDeviceOp | DeviceCopyOp) for inner in op.walk())
        if constrained or external_functions(op, compilers):
            DevicePlanner(op, names, names[0] if names else DEFAULT_DEVICE, compilers).run()
