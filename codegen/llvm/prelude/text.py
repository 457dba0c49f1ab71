"""The writer of prelude functions: one body for any number of lanes, as LLVM IR text."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from xdsl.dialects import builtin

from mlc.codegen.llvm.types import float_text
from mlc.targets.target import Target

COPIES = 4
"""Copies of a function that hold their addends in memory: as many as native vectors are computed beside each other."""
FEW_REGISTERS = 16
"""Vector registers that the constants of a function and the values of several vectors do not fit."""

MANY_ADDENDS = 5
"""A polynomial of so many addends, or more, reads them from memory. Source: on Zen 3 sigmoid, tanh and erf take 0.85 of
the time, sine with its 4 addends 1.07."""


class Key(NamedTuple):
    """A prelude function."""

    function: str
    element: str
    lanes: int
    """0: a scalar."""
    copy: int = 0
    """Copies differ in the addresses of their addends."""


LLVM_TYPES = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double", "i32": "i32", "i64": "i64", "i1": "i1"}


def holds_addends(key: Key, target: Target | None) -> bool:
    """
    Whether the addends of polynomials are operands in memory, each read by one FMA.

    LLVM reads a constant that several FMAs share into a register, and again wherever there is none: a third of the
    instructions of a sigmoid on four vectors of AVX2. Weak globals are not folded, and those of each copy are its own.
    """
    if target is None or target.architecture != "x86_64" or not target.fma or key.element == "f64":
        return False
    return target.vector_registers <= FEW_REGISTERS and key.lanes == target.lanes("f32")


def symbol_of(key: Key) -> str:
    """Name a prelude function: `mlc.exp.v16f32`, the second copy of it `mlc.exp.v16f32.1`."""
    lanes, copy = (f"v{key.lanes}" if key.lanes else ""), (f".{key.copy}" if key.copy else "")
    return f"mlc.{key.function}.{lanes}{key.element}{copy}"


class FunctionText:
    """Writes the text of one prelude function: values are names, constants stand in their users."""

    def __init__(self, key: Key, target: Target | None = None) -> None:
        self.key = key
        self.target = target
        self.name, self.element, self.lanes = key.function, key.element, key.lanes
        self.lines: list[str] = []
        self.types: dict[str, str] = {}
        self.declarations: dict[str, str] = {}
        self.called: set[Key] = set()

    def function(self, arity: int, write: Callable[..., str]) -> str:
        """Write the whole function of so many operands; `write` writes the body for f32."""
        args = [f"%x{i}" for i in range(arity)]
        self.types.update(dict.fromkeys(args, self.element))
        if self.element == "f64":
            result = self.libm(args)
        elif self.element != "f32":
            wide = [self.convert("fpext", a, "f32") for a in args]
            result = self.convert("fptrunc", self.call(self.name, *wide), self.element)
        else:
            result = write(self, *args)
        type_ = self.type(self.element)
        given = ", ".join(f"{type_} {a}" for a in args)
        head = f"define internal {type_} @{symbol_of(self.key)}({given}) alwaysinline #0 {{"
        return "\n".join([head, *self.lines, f"  ret {type_} {result}", "}"])

    def type(self, element: str) -> str:
        """The LLVM type of as many lanes as the function has."""
        return f"<{self.lanes} x {LLVM_TYPES[element]}>" if self.lanes else LLVM_TYPES[element]

    def emit(self, text: str, element: str) -> str:
        """Add an instruction; return the name of its result."""
        name = f"%t{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        self.types[name] = element
        return name

    def const(self, value: float, element: str) -> str:
        """A constant in every lane."""
        if element in ("f32", "f64"):
            text = float_text(value, builtin.f32 if element == "f32" else builtin.f64)
        else:
            text = str(int(value))
        return f"splat ({LLVM_TYPES[element]} {text})" if self.lanes else text

    def operands(self, *values: str | float) -> tuple[str, list[str]]:
        """Return the element type that the named values share, and all operands as text."""
        element = next(self.types[v] for v in values if isinstance(v, str))
        return element, [v if isinstance(v, str) else self.const(v, element) for v in values]

    def op(self, word: str, *values: str | float) -> str:
        """An arithmetic instruction, e.g. `op("fmul", x, 2.0)`."""
        element, texts = self.operands(*values)
        return self.emit(f"{word} {self.type(element)} {', '.join(texts)}", element)

    def intrinsic(self, name: str, *values: str | float) -> str:
        """A call of an overloaded intrinsic."""
        element, texts = self.operands(*values)
        type_ = self.type(element)
        full = f"{name}.{f'v{self.lanes}' if self.lanes else ''}{element}"
        self.declarations[full] = f"declare {type_} @{full}({', '.join([type_] * len(texts))})"
        return self.emit(f"call {type_} @{full}({', '.join(f'{type_} {t}' for t in texts)})", element)

    def fma(self, a: str | float, b: str | float, c: str | float) -> str:
        """`a * b + c`, in one rounding where the target has FMA."""
        return self.intrinsic("llvm.fmuladd", a, b, c)

    def poly(self, x: str, coefficients: Iterable[float]) -> str:
        """Horner's rule, the highest power first."""
        first, *rest = coefficients
        value: str | float = first
        in_memory = len(rest) >= MANY_ADDENDS and self.types[x] == "f32"
        for coefficient in rest:
            value = self.fma(value, x, self.addend(coefficient) if in_memory else coefficient)
        assert isinstance(value, str)
        return value

    def addend(self, value: float) -> str | float:
        """A constant that FMAs add; where registers are few, one in memory that is an operand of the instruction."""
        if not holds_addends(self.key, self.target):
            return value
        bits, type_ = float_text(value, builtin.f32).removeprefix("0x"), self.type("f32")
        name, align = f"@mlc.{bits}.v{self.lanes}f32.{self.key.copy}", 4 * self.lanes
        splat = self.const(value, "f32")
        self.declarations[name] = f"{name} = weak hidden global {type_} {splat}, align {align}"
        return self.emit(f"load {type_}, ptr {name}, align {align}", "f32")

    def compare(self, predicate: str, *values: str | float) -> str:
        """`fcmp` or `icmp`, by the operands' type."""
        element, texts = self.operands(*values)
        word = "fcmp" if element[0] == "f" else "icmp"
        return self.emit(f"{word} {predicate} {self.type(element)} {', '.join(texts)}", "i1")

    def select(self, condition: str, a: str | float, b: str | float, element: str = "f32") -> str:
        """Choose, lane by lane."""
        texts = [v if isinstance(v, str) else self.const(v, element) for v in (a, b)]
        type_ = self.type(element)
        return self.emit(f"select {self.type('i1')} {condition}, {type_} {texts[0]}, {type_} {texts[1]}", element)

    def convert(self, word: str, value: str, element: str) -> str:
        """A cast, e.g. `convert("bitcast", x, "i32")`."""
        return self.emit(f"{word} {self.type(self.types[value])} {value} to {self.type(element)}", element)

    def call(self, function: str, *values: str) -> str:
        """Call another function of the prelude on f32."""
        key = Key(function, "f32", self.lanes, self.key.copy)
        self.called.add(key)
        type_ = self.type("f32")
        return self.emit(f"call {type_} @{symbol_of(key)}({', '.join(f'{type_} {v}' for v in values)})", "f32")

    @property
    def has_fma(self) -> bool:
        """Whether `fma` rounds once."""
        return self.target is not None and self.target.fma

    @property
    def has_scalef(self) -> bool:
        """Whether one instruction multiplies the lanes by powers of two: AVX-512's vscalefps."""
        wide = self.target is not None and self.target.architecture == "x86_64" and self.target.vector_bits == 512
        return wide and self.lanes == 16

    def scalef(self, y: str, n: str) -> str:
        """`y * 2^n` for whole n, in one rounding."""
        name = "llvm.x86.avx512.mask.scalef.ps.512"
        type_ = self.type("f32")
        self.declarations[name] = f"declare {type_} @{name}({type_}, {type_}, {type_}, i16, i32 immarg)"
        return self.emit(f"call {type_} @{name}({type_} {y}, {type_} {n}, {type_} {y}, i16 -1, i32 4)", "f32")

    def clamp(self, x: str, low: float, high: float) -> str:
        """Bound x; a NaN stays one (it fails both comparisons)."""
        element = self.types[x]
        x = self.select(self.compare("ogt", x, high), high, x, element)
        return self.select(self.compare("olt", x, low), low, x, element)

    def libm(self, args: list[str]) -> str:
        """Call libm for each lane of f64."""
        if self.name == "sigmoid":
            return self._sigmoid_f64(args[0])
        name = self.name.removesuffix("_nonpositive")
        self.declarations[name] = f"declare double @{name}({', '.join(['double'] * len(args))})"
        if not self.lanes:
            return self.emit(f"call double @{name}({', '.join(f'double {a}' for a in args)})", "f64")
        type_, result = self.type("f64"), "poison"
        for lane in range(self.lanes):
            parts = [self.emit(f"extractelement {type_} {a}, i64 {lane}", "f64") for a in args]
            value = self.emit(f"call double @{name}({', '.join(f'double {p}' for p in parts)})", "f64")
            result = self.emit(f"insertelement {type_} {result}, double {value}, i64 {lane}", "f64")
        return result

    def _sigmoid_f64(self, x: str) -> str:
        key = Key("exp", "f64", self.lanes)
        self.called.add(key)
        type_ = self.type("f64")
        e = self.emit(f"call {type_} @{symbol_of(key)}({type_} {self.op('fneg', x)})", "f64")
        return self.op("fdiv", 1.0, self.op("fadd", e, 1.0))
