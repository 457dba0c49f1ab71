"""The printer of LLVM IR text: names, types, functions, phis, intrinsics, metadata."""

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects import builtin, llvm
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlc.codegen.llvm import prelude
from mlc.codegen.llvm.debug_lines import DebugLines
from mlc.codegen.llvm.types import constant_text, suffix, type_text
from mlc.dialects import llvm_ext
from mlc.support.errors import UserError
from mlc.targets.target import Target

Handler = Callable[["LLVMPrinter", Any], str]
HANDLERS: dict[type[Operation], Handler] = {}
# Operations that define a constant: printed as operands of their users.
CONSTANTS: dict[type[Operation], Callable[[Any], str]] = {
    llvm.ConstantOp: lambda op: constant_text(op.value, op.result.type),
    llvm.ZeroOp: lambda op: "null" if isinstance(op.res.type, llvm.LLVMPointerType) else "zeroinitializer",
    llvm.UndefOp: lambda op: "undef",
    llvm_ext.PoisonOp: lambda op: "poison",
    llvm.AddressOfOp: lambda op: f"@{symbol(op.global_name.string_value())}",
}


def symbol(name: str) -> str:
    """Quote a symbol's name where LLVM needs it."""
    return name if name.replace("_", "a").replace(".", "a").isalnum() and name.isascii() else f'"{name}"'


LOWERED_BY = {"func.func": "O3,main,program", "te.func": "O3", "loop.func": "O3"}
"""The pipelines that lower the functions of other levels."""


class LLVMPrinter:
    """Prints one module: gathers globals, functions, declarations and metadata; `text` puts them together."""

    def __init__(self, target: Target | None, lines: bool = False) -> None:
        self.target = target
        self.globals: list[str] = []
        self.functions: list[str] = []
        self.declarations: dict[str, str] = {}
        self.defined: set[str] = set()
        self.math: set[prelude.Key] = set()
        self.math_calls = 0
        self.metadata: dict[str, int] = {}
        self.nodes: list[str] = []
        # By identity: hashing an xDSL type costs more than printing it. The module keeps the types alive.
        self.types: dict[int, str] = {}
        self.names: dict[SSAValue, str] = {}
        self.labels: dict[Block, str] = {}
        self.incoming: dict[Block, list[tuple[str, Any]]] = {}
        self.out: list[str] = []
        self.count = 0
        self.lines = DebugLines(self.node) if lines else None

    def text(self) -> str:
        """Put the module together."""
        bodies, intrinsics = prelude.definitions(self.math, self.target)
        self.declarations.update(intrinsics)
        head: list[str] = [f'target triple = "{self.target.triple}"'] if self.target else []
        if self.lines is not None:
            head += self.lines.module()
        declarations = [text for name, text in sorted(self.declarations.items()) if name not in self.defined]
        attributes = [f"attributes #0 = {{ {self.attributes()} }}"]
        helpers = prelude.helpers(self.target, (*self.functions, *bodies))
        parts = [head, self.globals, self.functions, bodies, helpers, declarations, attributes, self.nodes]
        return "\n".join(line for part in parts for line in part) + "\n"

    def attributes(self) -> str:
        """The attributes that every function of the module has."""
        words = ["nounwind"]
        if self.target:
            if self.target.vector_bits > 128:  # spilled vectors would cross cache lines
                words.append(f"alignstack={self.target.vector_bits // 8}")
            words.append(f'"target-cpu"="{self.target.cpu}"')
            if self.target.features:
                words.append(f'"target-features"="{self.target.features}"')
        return " ".join(words)

    def top(self, op: Operation) -> None:
        """Print one operation of the module's body."""
        if isinstance(op, llvm.FuncOp):
            self.function(op)
        elif isinstance(op, llvm.GlobalOp):
            self.globals.append(global_text(op))
        else:
            remedy = f"; lower it first: -p {LOWERED_BY[op.name]}" if op.name in LOWERED_BY else ""
            raise UserError(f"expected llvm.func or llvm.mlir.global in a module for LLVM, but got {op.name}{remedy}")

    # Names and types

    def type(self, type_: Attribute) -> str:
        """Print a type, remembered by identity."""
        text = self.types.get(id(type_))
        if text is None:
            text = self.types[id(type_)] = type_text(type_)
        return text

    def typed(self, value: SSAValue) -> str:
        """Print an operand with its type."""
        return f"{self.type(value.type)} {self.names[value]}"

    def fresh(self) -> str:
        """Return a name for a value that no operation of the module defines."""
        self.count += 1
        return f"%t{self.count}"

    def declare(self, name: str, result: str, arguments: list[str]) -> None:
        """Note an external function that has to be declared."""
        if name not in self.declarations:
            self.declarations[name] = f"declare {result} @{name}({', '.join(arguments)})"

    def node(self, content: str) -> str:
        """Return the number of a metadata node with this content."""
        number = self.metadata.get(content)
        if number is None:
            number = len(self.nodes)
            self.nodes.append(f"!{number} = {content.replace('!self', f'!{number}')}")
            if "!self" not in content:  # a loop's node is its own
                self.metadata[content] = number
        return f"!{number}"

    # Functions

    def function(self, op: llvm.FuncOp) -> None:
        """Print a function, or declare it when it has no body."""
        name = symbol(op.sym_name.data)
        type_ = op.function_type
        if not op.body.blocks:
            variadic = ["..."] if type_.is_variadic else []
            self.declare(name, self.type(type_.output), [*map(self.type, type_.inputs), *variadic])
            return
        self.defined.add(name)
        self.names, self.labels, self.incoming, self.out = {}, {}, {}, []
        arguments = self.arguments(op)
        linkage = op.linkage.linkage.data
        words = ["define", "" if linkage == "external" else linkage, self.type(type_.output)]
        head = " ".join(filter(None, words))
        subprogram = f"{self.lines.enter(op)} " if self.lines is not None else ""
        self.out.append(f"{head} @{name}({arguments}) {function_attributes(op)}{subprogram}{{")
        self.name_values(op)
        for index, block in enumerate(op.body.blocks):
            self.out.append(f"{self.labels[block]}:")
            if index:
                self.phis(block)
            self.block(block)
        self.out.append("}")
        self.functions.append("\n".join(self.out))

    def arguments(self, op: llvm.FuncOp) -> str:
        """Print the arguments with their attributes, and name them."""
        texts: list[str] = []
        args = op.body.blocks[0].args
        attributes = op.arg_attrs.data if op.arg_attrs else (builtin.DictionaryAttr({}),) * len(args)
        for index, (arg, entries) in enumerate(zip(args, attributes, strict=True)):
            self.names[arg] = f"%a{index}"
            words = [self.type(arg.type), *map(argument_attribute, entries.data.items()), f"%a{index}"]
            texts.append(" ".join(words))
        return ", ".join(texts)

    def name_values(self, op: llvm.FuncOp) -> None:
        """Name each value and label, and note which edges lead to each block."""
        names, count = self.names, 0
        for index, block in enumerate(op.body.blocks):
            label = self.labels[block] = f"b{index}"
            if index:
                for arg in block.args:
                    names[arg] = f"%v{count}"
                    count += 1
            for inner in block.ops:
                constant = CONSTANTS.get(type(inner))
                if constant is not None:
                    names[inner.results[0]] = constant(inner)
                    continue
                for result in inner.results:
                    names[result] = f"%v{count}"
                    count += 1
                if inner.successors:
                    self.edges(inner, label)

    def edges(self, op: Operation, label: str) -> None:
        """Note the edges that a terminator makes."""
        if isinstance(op, llvm.BrOp):
            self.incoming.setdefault(op.successor, []).append((label, op.arguments))
        elif isinstance(op, llvm.CondBrOp):
            self.incoming.setdefault(op.then_block, []).append((label, op.then_arguments))
            # Two edges between the same blocks would need two values of one phi: the second gets its own block.
            other = f"{label}.else" if op.then_block is op.else_block else label
            self.incoming.setdefault(op.else_block, []).append((other, op.else_arguments))
        else:
            raise UserError(f"expected llvm.br or llvm.cond_br to end a block, but got {op.name}")

    def phis(self, block: Block) -> None:
        """Print a block's arguments as phis; those of a block that nothing reaches are poison."""
        edges = self.incoming.get(block)
        for index, arg in enumerate(block.args):
            if edges is None:
                self.out.append(f"  {self.names[arg]} = freeze {self.type(arg.type)} poison")
                continue
            values = ", ".join(f"[{self.names[given[index]]}, %{label}]" for label, given in edges)
            self.out.append(f"  {self.names[arg]} = phi {self.type(arg.type)} {values}")

    def block(self, block: Block) -> None:
        """Print the operations of a block."""
        out, names = self.out, self.names
        for op in block.ops:
            cls = type(op)
            handler = HANDLERS.get(cls)
            if handler is None:
                if cls in CONSTANTS:
                    continue
                raise UserError(f"expected an operation that becomes LLVM IR, but got {op.name}")
            text = handler(self, op)
            if self.lines is not None:
                text = self.lines.located(text, op)
            out.append(f"  {names[op.results[0]]} = {text}" if op.results else f"  {text}")

    # Calls of intrinsics

    def intrinsic(self, name: str, result: Attribute | None, args: list[str], types: list[str], flags: str = "") -> str:
        """Print a call of an intrinsic and declare it."""
        result_text = "void" if result is None else self.type(result)
        self.declare(name, result_text, types)
        given = ", ".join(f"{t} {a}" for t, a in zip(types, args, strict=True))
        return f"call {flags}{result_text} @{name}({given})"

    def call_intrinsic(
        self,
        name: str,
        result: Attribute | None,
        operands: Sequence[SSAValue],
        flags: str = "",
    ) -> str:
        """Print a call of an intrinsic whose name is completed from its types."""
        full = ".".join([name, *map(suffix, overloaded(name, result, operands))])
        types = [self.type(v.type) for v in operands]
        return self.intrinsic(full, result, [self.names[v] for v in operands], types, flags)


# Overloaded intrinsics by the types whose suffixes complete their names; all others take the result's.
_BY_OPERAND = ("llvm.vector.reduce.", "llvm.is.fpclass", "llvm.lifetime.", "llvm.prefetch", "llvm.assume")
_BY_RESULT_AND_OPERAND = (
    "llvm.fptosi.sat",
    "llvm.fptoui.sat",
    "llvm.lrint",
    "llvm.llrint",
    "llvm.lround",
    "llvm.llround",
    "llvm.scmp",
    "llvm.ucmp",
    "llvm.vector.extract",
    "llvm.vector.insert",
    "llvm.vector.partial.reduce.add",
)
_TWO_RESULT = ("llvm.powi", "llvm.ldexp")
_PLAIN = ("llvm.assume", "llvm.trap", "llvm.debugtrap", "llvm.readcyclecounter", "llvm.x86.", "llvm.aarch64.")


def overloaded(name: str, result: Attribute | None, operands: Sequence[SSAValue]) -> list[Attribute]:
    """Return the types whose suffixes complete an intrinsic's name."""
    if name.startswith(_PLAIN):
        return []
    if name.startswith(("llvm.vector.reduce.fadd", "llvm.vector.reduce.fmul")):
        return [operands[1].type]
    if name.startswith(_BY_OPERAND) or result is None:
        return [operands[0].type]
    if name.startswith(_BY_RESULT_AND_OPERAND):
        other = operands[1] if name.endswith((".insert", ".add")) else operands[0]
        return [result, other.type]
    if name.startswith(_TWO_RESULT):
        return [result, operands[1].type]
    return [result]


def function_attributes(op: llvm.FuncOp) -> str:
    """Print what a function has beyond the module's common attributes."""
    words: list[str] = []
    if op.unnamed_addr is not None and op.unnamed_addr.value.data:
        words.append(llvm.UNNAMED_ADDR_KEYWORD_BY_KEY[op.unnamed_addr.value.data])
    words.append("#0")
    if op.no_inline is not None:
        words.append("noinline")
    if op.target_cpu is not None:
        words.append(f'"target-cpu"="{op.target_cpu.data}"')
    if op.target_features is not None:
        joined = ",".join(f.data for f in op.target_features.features)
        words.append(f'"target-features"="{joined}"')
    for entry in op.passthrough or ():
        if isinstance(entry, builtin.StringAttr):
            words.append(entry.data)
        elif isinstance(entry, builtin.ArrayAttr):
            key, value = (part.data for part in entry.data if isinstance(part, builtin.StringAttr))
            words.append(f'"{key}"="{value}"')
    return " ".join(words) + " "


# LLVM 21 replaced nocapture by captures(none).
_RENAMED = {"nocapture": "captures(none)"}


def argument_attribute(entry: tuple[str, Attribute]) -> str:
    """Print one attribute of an argument: `llvm.align = 64` -> `align 64`."""
    key, value = entry
    if not key.startswith("llvm."):
        return ""
    word = key.removeprefix("llvm.")
    if isinstance(value, builtin.IntegerAttr):
        number = value.value.data
        return f"align {number}" if word == "align" else f"{word}({number})"
    return _RENAMED.get(word, word)


def global_text(op: llvm.GlobalOp) -> str:
    """Print a global: `@w = private constant [4 x float] [...], align 64`."""
    type_, linkage = op.global_type, op.linkage.linkage.data
    is_declared = op.value is None and linkage in ("external", "extern_weak")
    unnamed = op.unnamed_addr.value.data if op.unnamed_addr is not None else 0
    words = [
        f"@{symbol(op.sym_name.data)} =",
        linkage if is_declared or linkage != "external" else "",
        "dso_local" if op.dso_local is not None else "",
        "thread_local" if op.thread_local_ is not None else "",
        llvm.UNNAMED_ADDR_KEYWORD_BY_KEY.get(unnamed, ""),
        "constant" if op.constant is not None else "global",
        type_text(type_),
    ]
    if not is_declared:
        words.append("zeroinitializer" if op.value is None else constant_text(op.value, type_))
    text = " ".join(filter(None, words))
    if op.section is not None:
        text += f', section "{op.section.data}"'
    return text + (f", align {op.alignment.value.data}" if op.alignment is not None else "")
