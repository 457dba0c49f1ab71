"""Printers of llvm and llvm_ext operations: one small function, or one row of a table, for each."""

from collections.abc import Callable

from xdsl.dialects import builtin, llvm
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.codegen.llvm import prelude
from mlc.codegen.llvm.printer import HANDLERS, Handler, LLVMPrinter, symbol
from mlc.codegen.llvm.types import suffix
from mlc.dialects import llvm_ext
from mlc.support.errors import UserError

ORDERINGS = {2: "monotonic", 4: "acquire", 5: "release", 6: "acq_rel", 7: "seq_cst"}
ICMP = tuple(str(flag) for flag in llvm.ALL_ICMP_FLAGS)
FCMP = tuple(str(flag).removeprefix("_") for flag in llvm.ALL_FCMP_FLAGS)

INTEGER_BINARY: dict[type[Operation], str] = {
    llvm.AddOp: "add",
    llvm.SubOp: "sub",
    llvm.MulOp: "mul",
    llvm.UDivOp: "udiv",
    llvm.SDivOp: "sdiv",
    llvm.URemOp: "urem",
    llvm.SRemOp: "srem",
    llvm.AndOp: "and",
    llvm.OrOp: "or",
    llvm.XOrOp: "xor",
    llvm.ShlOp: "shl",
    llvm.LShrOp: "lshr",
    llvm.AShrOp: "ashr",
}
FLOAT_BINARY: dict[type[Operation], str] = {
    llvm.FAddOp: "fadd",
    llvm.FSubOp: "fsub",
    llvm.FMulOp: "fmul",
    llvm.FDivOp: "fdiv",
    llvm.FRemOp: "frem",
}
CASTS: dict[type[Operation], str] = {
    llvm.TruncOp: "trunc",
    llvm.ZExtOp: "zext",
    llvm.SExtOp: "sext",
    llvm.BitcastOp: "bitcast",
    llvm.SIToFPOp: "sitofp",
    llvm.FPExtOp: "fpext",
    llvm.FPTruncOp: "fptrunc",
    llvm.IntToPtrOp: "inttoptr",
    llvm.PtrToIntOp: "ptrtoint",
}
INTRINSICS: dict[type[Operation], str] = {
    llvm.FAbsOp: "llvm.fabs",
    llvm.FCeilOp: "llvm.ceil",
    llvm.FSqrtOp: "llvm.sqrt",
    llvm.FFloorOp: "llvm.floor",
    llvm.FExp2Op: "llvm.exp2",
    llvm.FLogOp: "llvm.log",
    llvm.FLog2Op: "llvm.log2",
    llvm.FExpOp: "llvm.exp",
    llvm.FSinOp: "llvm.sin",
    llvm.FCosOp: "llvm.cos",
    llvm.FPowOp: "llvm.pow",
    llvm.FMAOp: "llvm.fma",
    llvm.FCopySignOp: "llvm.copysign",
    llvm.VectorFMaxOp: "llvm.maxnum",
    llvm.VectorFMinOp: "llvm.minnum",
    llvm.VectorReduceFAddOp: "llvm.vector.reduce.fadd",
    llvm.VectorReduceFMulOp: "llvm.vector.reduce.fmul",
}
_FLAGS = ("", "nsw ", "nuw ", "nuw nsw ")


def _operands(op: Operation) -> tuple[SSAValue, ...]:
    return op._operands  # pyright: ignore[reportPrivateUsage] `op.operands` makes a view at every access


def handles(*classes: type[Operation]) -> Callable[[Handler], Handler]:
    """Register a function as the printer of some classes of operations."""

    def register(function: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(classes, function))
        return function

    return register


def fast_math(op: Operation) -> str:
    """Print an operation's fast-math flags, each followed by a space."""
    flags = op.properties.get("fastmathFlags")
    data = flags.data if isinstance(flags, llvm.FastMathAttr) else ()
    if not data:
        return ""
    return "fast " if len(data) == 7 else "".join(f"{flag.value} " for flag in sorted(data))


def alignment(op: Operation, type_: Attribute | None = None) -> str:
    """Print an operation's alignment; a vector without one has its element's, where LLVM would take the vector's."""
    align = op.properties.get("alignment")
    if isinstance(align, builtin.IntegerAttr):
        return f", align {align.value.data}"
    if isinstance(type_, builtin.VectorType):
        element = type_.element_type
        bits = element.bitwidth if isinstance(element, builtin.FixedBitwidthType) else 8
        return f", align {max(1, bits // 8)}"
    return ""


def _binary(word: str) -> Handler:
    def emit(e: LLVMPrinter, op: Operation) -> str:
        lhs, rhs = _operands(op)
        properties = op.properties
        flags = ""
        if properties:
            overflow = properties.get("overflowFlags")
            if isinstance(overflow, builtin.IntegerAttr):
                flags = _FLAGS[overflow.value.data]
            elif "isExact" in properties:
                flags = "exact "
            elif "isDisjoint" in properties:
                flags = "disjoint "
        return f"{word} {flags}{e.type(lhs.type)} {e.names[lhs]}, {e.names[rhs]}"

    return emit


def _float_binary(word: str) -> Handler:
    def emit(e: LLVMPrinter, op: Operation) -> str:
        lhs, rhs = _operands(op)
        return f"{word} {fast_math(op)}{e.type(lhs.type)} {e.names[lhs]}, {e.names[rhs]}"

    return emit


def _cast(word: str) -> Handler:
    def emit(e: LLVMPrinter, op: Operation) -> str:
        flags = "nneg " if "nonNeg" in op.properties else ""
        if isinstance(overflow := op.properties.get("overflowFlags"), llvm.OverflowAttr):
            flags = _FLAGS[overflow.to_int()]
        return f"{word} {flags}{e.typed(_operands(op)[0])} to {e.type(op.results[0].type)}"

    return emit


def _intrinsic(name: str) -> Handler:
    def emit(e: LLVMPrinter, op: Operation) -> str:
        return e.call_intrinsic(name, op.results[0].type, _operands(op), fast_math(op))

    return emit


for table, make in (
    (INTEGER_BINARY, _binary),
    (FLOAT_BINARY, _float_binary),
    (CASTS, _cast),
    (INTRINSICS, _intrinsic),
):
    HANDLERS.update({cls: make(word) for cls, word in table.items()})


@handles(llvm.FNegOp)
def _fneg(e: LLVMPrinter, op: llvm.FNegOp) -> str:
    return f"fneg {fast_math(op)}{e.typed(op.arg)}"


@handles(llvm.ICmpOp)
def _icmp(e: LLVMPrinter, op: llvm.ICmpOp) -> str:
    lhs, rhs = _operands(op)
    return f"icmp {ICMP[op.predicate.value.data]} {e.type(lhs.type)} {e.names[lhs]}, {e.names[rhs]}"


@handles(llvm.FCmpOp)
def _fcmp(e: LLVMPrinter, op: llvm.FCmpOp) -> str:
    flags = fast_math(op)
    return f"fcmp {flags}{FCMP[op.predicate.value.data]} {e.typed(op.lhs)}, {e.names[op.rhs]}"


@handles(llvm_ext.FCmpOp)
def _fcmp_ext(e: LLVMPrinter, op: llvm_ext.FCmpOp) -> str:
    return f"fcmp {op.predicate.data} {e.typed(op.lhs)}, {e.names[op.rhs]}"


@handles(llvm.SelectOp, llvm_ext.SelectOp)
def _select(e: LLVMPrinter, op: Operation) -> str:
    cond, lhs, rhs = _operands(op)
    return f"select {fast_math(op)}{e.typed(cond)}, {e.typed(lhs)}, {e.typed(rhs)}"


@handles(llvm_ext.CastOp)
def _cast_ext(e: LLVMPrinter, op: llvm_ext.CastOp) -> str:
    return f"{op.kind.data} {e.typed(op.arg)} to {e.type(op.res.type)}"


# Memory


def _metadata(e: LLVMPrinter, op: Operation) -> str:
    text = ""
    if "nontemporal" in op.properties or "nontemporal" in op.attributes:
        text += f", !nontemporal {e.node('!{i32 1}')}"
    if "invariant" in op.attributes:
        text += f", !invariant.load {e.node('!{}')}"
    return text


def _order(op: Operation) -> tuple[str, str]:
    ordering = op.properties.get("ordering")
    number = ordering.value.data if isinstance(ordering, builtin.IntegerAttr) else 0
    return ("atomic ", f" {ORDERINGS[number]}") if number else ("", "")


@handles(llvm.LoadOp)
def _load(e: LLVMPrinter, op: llvm.LoadOp) -> str:
    atomic, order = _order(op)
    ptr = _operands(op)[0]
    type_ = op.results[0].type
    text = f"load {atomic}{e.type(type_)}, {e.typed(ptr)}{order}{alignment(op, type_)}"
    return text + _metadata(e, op) if op.attributes else text


@handles(llvm.StoreOp)
def _store(e: LLVMPrinter, op: llvm.StoreOp) -> str:
    atomic, order = _order(op)
    volatile = "volatile " if "volatile_" in op.properties else ""
    value, ptr = _operands(op)
    align = alignment(op, value.type)
    return f"store {atomic}{volatile}{e.typed(value)}, {e.typed(ptr)}{order}{align}{_metadata(e, op)}"


@handles(llvm.AllocaOp)
def _alloca(e: LLVMPrinter, op: llvm.AllocaOp) -> str:
    return f"alloca {e.type(op.elem_type)}, {e.typed(op.size)}{alignment(op)}"


@handles(llvm.GEPOp)
def _gep(e: LLVMPrinter, op: llvm.GEPOp) -> str:
    base, *indices = _operands(op)
    given = iter(indices)
    texts: list[str] = []
    # A constant index into a struct has to be i32; i32 is right for arrays too.
    for index in op.rawConstantIndices.iter_values():
        if index == llvm.GEP_USE_SSA_VAL:
            texts.append(e.typed(next(given)))
        else:
            texts.append(f"i32 {index}")
    bounds = "inbounds " if op.inbounds is not None else ""
    return f"getelementptr {bounds}{e.type(op.elem_type)}, {e.typed(base)}, {', '.join(texts)}"


def _elements(e: LLVMPrinter, base: SSAValue, index: SSAValue, value: SSAValue) -> tuple[str, str]:
    """Print the addresses `base[index]` of a gather or scatter; return their vector's type and name."""
    assert isinstance(value.type, builtin.VectorType)
    lanes, element = value.type.get_shape()[0], value.type.element_type
    name = e.fresh()
    e.out.append(f"  {name} = getelementptr {e.type(element)}, {e.typed(base)}, {e.typed(index)}")
    return f"<{lanes} x ptr>", name


def _pointer_attribute(op: Operation) -> str:
    align = op.properties.get("alignment")
    return f"align {align.value.data} " if isinstance(align, builtin.IntegerAttr) else ""


def _masked(
    e: LLVMPrinter, name: str, result: Attribute | None, types: list[str], values: list[str], ptr: int, op: Operation
) -> str:
    """Call a masked memory intrinsic; the alignment is an attribute of its pointer argument."""
    text = e.intrinsic(name, result, values, types)
    if attribute := _pointer_attribute(op):
        text = text.replace(f"{types[ptr]} {values[ptr]}", f"{types[ptr]} {attribute}{values[ptr]}", 1)
    return text


@handles(llvm_ext.MaskedLoadOp)
def _masked_load(e: LLVMPrinter, op: llvm_ext.MaskedLoadOp) -> str:
    type_, operands = op.res.type, _operands(op)
    name = f"llvm.masked.load.{suffix(type_)}.p0"
    types = [e.type(v.type) for v in operands]
    return _masked(e, name, type_, types, [e.names[v] for v in operands], 0, op)


@handles(llvm_ext.MaskedStoreOp, llvm.MaskedStoreOp)
def _masked_store(e: LLVMPrinter, op: llvm_ext.MaskedStoreOp | llvm.MaskedStoreOp) -> str:
    operands = _operands(op)
    name = f"llvm.masked.store.{suffix(op.value.type)}.p0"
    types = [e.type(v.type) for v in operands]
    return _masked(e, name, None, types, [e.names[v] for v in operands], 1, op)


@handles(llvm_ext.GatherOp)
def _gather(e: LLVMPrinter, op: llvm_ext.GatherOp) -> str:
    type_ = op.res.type
    ptrs, name = _elements(e, op.base, op.index, op.res)
    full = f"llvm.masked.gather.{suffix(type_)}.{ptrs_suffix(ptrs)}"
    types = [ptrs, e.type(op.mask.type), e.type(type_)]
    return _masked(e, full, type_, types, [name, e.names[op.mask], e.names[op.passthru]], 0, op)


@handles(llvm_ext.ScatterOp)
def _scatter(e: LLVMPrinter, op: llvm_ext.ScatterOp) -> str:
    ptrs, name = _elements(e, op.base, op.index, op.value)
    full = f"llvm.masked.scatter.{suffix(op.value.type)}.{ptrs_suffix(ptrs)}"
    types = [e.type(op.value.type), ptrs, e.type(op.mask.type)]
    return _masked(e, full, None, types, [e.names[op.value], name, e.names[op.mask]], 1, op)


def ptrs_suffix(type_: str) -> str:
    """Return the suffix of a vector of pointers: `<16 x ptr>` -> `v16p0`."""
    return f"v{type_[1:].split()[0]}p0"


@handles(llvm_ext.PrefetchOp)
def _prefetch(e: LLVMPrinter, op: llvm_ext.PrefetchOp) -> str:
    values = [e.names[op.ptr], str(int(op.write is not None)), str(op.locality.value.data), "1"]
    return e.intrinsic("llvm.prefetch.p0", None, values, ["ptr", "i32", "i32", "i32"])


@handles(llvm_ext.AtomicRMWOp)
def _atomicrmw(e: LLVMPrinter, op: llvm_ext.AtomicRMWOp) -> str:
    return f"atomicrmw {op.kind.data} {e.typed(op.ptr)}, {e.typed(op.value)} {op.ordering.data}"


@handles(llvm_ext.FenceOp)
def _fence(e: LLVMPrinter, op: llvm_ext.FenceOp) -> str:
    return f"fence {op.ordering.data}"


@handles(llvm.StackSaveOp)
def _stack_save(e: LLVMPrinter, op: llvm.StackSaveOp) -> str:
    return e.intrinsic("llvm.stacksave.p0", op.res.type, [], [])


@handles(llvm.StackRestoreOp)
def _stack_restore(e: LLVMPrinter, op: llvm.StackRestoreOp) -> str:
    return e.intrinsic("llvm.stackrestore.p0", None, [e.names[op.ptr]], ["ptr"])


# Vectors and aggregates


@handles(llvm.InsertElementOp)
def _insertelement(e: LLVMPrinter, op: llvm.InsertElementOp) -> str:
    return f"insertelement {e.typed(op.vector)}, {e.typed(op.value)}, {e.typed(op.index)}"


@handles(llvm_ext.ExtractElementOp)
def _extractelement(e: LLVMPrinter, op: llvm_ext.ExtractElementOp) -> str:
    return f"extractelement {e.typed(op.vector)}, {e.typed(op.index)}"


@handles(llvm_ext.SplatOp)
def _splat(e: LLVMPrinter, op: llvm_ext.SplatOp) -> str:
    type_, name = e.type(op.res.type), e.fresh()
    e.out.append(f"  {name} = insertelement {type_} poison, {e.typed(op.value)}, i64 0")
    return f"shufflevector {type_} {name}, {type_} poison, {type_.split(' x ')[0]} x i32> zeroinitializer"


@handles(llvm.ShuffleVectorOp)
def _shufflevector(e: LLVMPrinter, op: llvm.ShuffleVectorOp) -> str:
    mask = op.mask.get_values()
    texts = ", ".join("i32 poison" if i < 0 else f"i32 {i}" for i in mask)
    return f"shufflevector {e.typed(op.v1)}, {e.typed(op.v2)}, <{len(mask)} x i32> <{texts}>"


@handles(llvm.ExtractValueOp)
def _extractvalue(e: LLVMPrinter, op: llvm.ExtractValueOp) -> str:
    return f"extractvalue {e.typed(op.container)}, {', '.join(map(str, op.position.iter_values()))}"


@handles(llvm.InsertValueOp)
def _insertvalue(e: LLVMPrinter, op: llvm.InsertValueOp) -> str:
    where = ", ".join(map(str, op.position.iter_values()))
    return f"insertvalue {e.typed(op.container)}, {e.typed(op.value)}, {where}"


# Calls and control flow


@handles(llvm.CallOp)
def _call(e: LLVMPrinter, op: llvm.CallOp) -> str:
    args = list(op.args)
    if op.callee is not None:
        callee = f"@{symbol(op.callee.string_value())}"
    else:
        callee = e.names[args.pop(0)]
    result = e.type(op.results[0].type) if op.results else "void"
    if (type_ := op.var_callee_type) is not None and type_.is_variadic:
        result = f"{result} ({', '.join([*map(e.type, type_.inputs), '...'])})"
    return f"call {fast_math(op)}{result} {callee}({', '.join(map(e.typed, args))})"


@handles(llvm.CallIntrinsicOp)
def _call_intrinsic(e: LLVMPrinter, op: llvm.CallIntrinsicOp) -> str:
    # Upstream's op names the intrinsic in full.
    types = [e.type(v.type) for v in op.args]
    result = op.results[0].type if op.results else None
    return e.intrinsic(op.intrin.data, result, [e.names[v] for v in op.args], types, fast_math(op))


@handles(llvm_ext.IntrinsicOp)
def _intrinsic_ext(e: LLVMPrinter, op: llvm_ext.IntrinsicOp) -> str:
    result = op.results[0].type if op.results else None
    return e.call_intrinsic(op.intrin.data, result, _operands(op), fast_math(op))


@handles(llvm_ext.MathOp)
def _math(e: LLVMPrinter, op: llvm_ext.MathOp) -> str:
    type_ = op.results[0].type
    name, key = prelude.function_for(op.function.data, type_, e.target, e.math_calls)
    e.math.add(key)
    e.math_calls += 1
    text = e.type(type_)
    return f"call {text} @{name}({', '.join(map(e.typed, _operands(op)))})"


@handles(llvm.ReturnOp)
def _return(e: LLVMPrinter, op: llvm.ReturnOp) -> str:
    return f"ret {e.typed(_operands(op)[0])}" if _operands(op) else "ret void"


@handles(llvm.UnreachableOp)
def _unreachable(e: LLVMPrinter, op: llvm.UnreachableOp) -> str:
    return "unreachable"


def _loop_metadata(e: LLVMPrinter, op: Operation) -> str:
    if "no_unroll" not in op.attributes:
        return ""
    disable = e.node('!{!"llvm.loop.unroll.disable"}')
    return f", !llvm.loop {e.node('distinct !{!self, ' + disable + '}')}"


@handles(llvm.BrOp)
def _br(e: LLVMPrinter, op: llvm.BrOp) -> str:
    return f"br label %{e.labels[op.successor]}{_loop_metadata(e, op)}"


@handles(llvm.CondBrOp)
def _cond_br(e: LLVMPrinter, op: llvm.CondBrOp) -> str:
    then, other = e.labels[op.then_block], e.labels[op.else_block]
    tail = ""
    if op.then_block is op.else_block:
        block = op.parent
        if block is None:
            raise UserError("expected llvm.cond_br to stand in a block, but it is detached")
        other = f"{e.labels[block]}.else"
        tail = f"\n{other}:\n  br label %{then}"
    cond = e.names[_operands(op)[0]]
    return f"br i1 {cond}, label %{then}, label %{other}{_loop_metadata(e, op)}{tail}"
