"""Printing LLVM IR, compiling it, loading it, and running what comes out."""

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects import builtin, llvm
from xdsl.parser import Parser

from mlc.codegen.link import link_shared
from mlc.codegen.llvm.ir import print_module
from mlc.codegen.llvm.types import bytes_text, float_text
from mlc.codegen.native import Library, assemble, defined_symbols, emit_object, target_machine
from mlc.dialects.llvm_ext import LLVMExt
from mlc.support.errors import UserError
from mlc.targets.target import Target, dtype_bits

LIBRARIES: list[Library] = []


def parse(text: str) -> builtin.ModuleOp:
    context = Context()
    for dialect in (builtin.Builtin, llvm.LLVM, LLVMExt):
        context.load_dialect(dialect)
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def load(text: str, target: str = "native") -> Library:
    library = Library.load([emit_object(print_module(parse(text), target=target), target)])
    LIBRARIES.append(library)
    return library


def call(library: Library, name: str, *args: Any) -> None:
    given = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in args]
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p if isinstance(a, np.ndarray) else ctypes.c_int64 for a in args])(
        library.address(name)
    )(*given)


@pytest.mark.parametrize("target", ["native", "x86-64-v2", "x86-64-v3"])
def test_masked_memory(target: str) -> None:
    library = load(
        """
llvm.func @f(%src : !llvm.ptr, %index : !llvm.ptr, %loaded : !llvm.ptr, %gathered : !llvm.ptr, %out : !llvm.ptr) {
  %mask = llvm.mlir.constant(dense<[true, false, true, true]> : vector<4xi1>) : vector<4xi1>
  %fill = llvm.mlir.constant(dense<-1.0> : vector<4xf32>) : vector<4xf32>
  %i = llvm.load %index : !llvm.ptr -> vector<4xi32>
  %a = llvm_ext.masked_load %src, %mask, %fill align 4 : vector<4xi1>, vector<4xf32>
  llvm.store %a, %loaded : vector<4xf32>, !llvm.ptr
  %b = llvm_ext.gather %src[%i], %mask, %fill align 4 : vector<4xi32>, vector<4xi1>, vector<4xf32>
  llvm_ext.masked_store %b, %gathered, %mask align 4 : vector<4xf32>, vector<4xi1>
  llvm_ext.scatter %a, %out[%i], %mask align 4 : vector<4xf32>, vector<4xi32>, vector<4xi1>
  llvm.return
}""",
        target,
    )
    src, index = np.float32([10, 11, 12, 13]), np.int32([3, 2, 1, 0])
    loaded, gathered, out = np.zeros((3, 4), np.float32)
    call(library, "f", src, index, loaded, gathered, out)
    assert loaded.tolist() == [10, -1, 12, 13]
    assert gathered.tolist() == [13, 0, 11, 10]
    assert out.tolist() == [13, 12, 0, 10]


def test_control_flow_and_phis() -> None:
    library = load(
        """
llvm.func @f(%n : i64, %out : !llvm.ptr) {
  %zero = llvm.mlir.constant(0) : i64
  %one = llvm.mlir.constant(1) : i64
  %two = llvm.mlir.constant(2) : i64
  llvm.br ^loop(%zero, %one, %zero : i64, i64, i64)
^loop(%i : i64, %a : i64, %b : i64):
  %sum = llvm.add %a, %b : i64
  %next = llvm.add %i, %one : i64
  %more = llvm.icmp "slt" %next, %n : i64
  llvm.cond_br %more, ^loop(%next, %sum, %a : i64, i64, i64), ^end(%sum : i64) {no_unroll}
^end(%result : i64):
  %even = llvm.icmp "eq" %n, %two : i64
  llvm.cond_br %even, ^store(%zero : i64), ^store(%result : i64)
^store(%value : i64):
  llvm.store %value, %out : i64, !llvm.ptr
  llvm.return
^unreachable(%x : i64):
  llvm.br ^store(%x : i64)
}"""
    )
    out = np.zeros(1, np.int64)
    call(library, "f", 10, out)
    assert out[0] == 89
    call(library, "f", 2, out)
    assert out[0] == 0


def test_structures_calls_and_globals() -> None:
    library = load(
        """
llvm.mlir.global private constant @table(dense<[5, 7, 11]> : tensor<3xi32>) {addr_space = 0 : i32}
  : !llvm.array<3 x i32>
llvm.func internal @twice(%x : i32) -> i32 {
  %y = llvm.add %x, %x : i32
  llvm.return %y : i32
}
llvm.func @f(%k : i64, %out : !llvm.ptr) {
  %table = llvm.mlir.addressof @table : !llvm.ptr
  %at = llvm.getelementptr inbounds %table[0, %k] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.array<3 x i32>
  %v = llvm.load %at : !llvm.ptr -> i32
  %w = llvm.call @twice(%v) : (i32) -> i32
  %twice = llvm.mlir.addressof @twice : !llvm.ptr
  %x = llvm.call %twice(%w) : !llvm.ptr, (i32) -> i32
  %field = llvm.getelementptr inbounds %out[0, 1] : (!llvm.ptr) -> !llvm.ptr, !llvm.struct<(i64, i32)>
  llvm.store %x, %field : i32, !llvm.ptr
  %count = llvm.mlir.constant(1) : i64
  %slot = llvm.alloca %count x i64 {alignment = 8 : i64} : (i64) -> !llvm.ptr
  llvm.store %k, %slot : i64, !llvm.ptr
  %back = llvm.load %slot : !llvm.ptr -> i64
  llvm.store %back, %out {nontemporal} : i64, !llvm.ptr
  llvm.return
}"""
    )
    out = np.zeros(3, np.int32)
    call(library, "f", 2, out)
    assert out.tolist() == [2, 0, 44]


@pytest.mark.parametrize("target", ["native", "x86-64-v2"])
def test_math_casts_and_reductions(target: str) -> None:
    library = load(
        """
llvm.func @f(%x : !llvm.ptr, %floats : !llvm.ptr, %ints : !llvm.ptr) {
  %v = llvm.load %x : !llvm.ptr -> vector<8xf32>
  %e = llvm_ext.math "exp"(%v) : vector<8xf32>
  llvm.store %e, %floats : vector<8xf32>, !llvm.ptr
  %zero = llvm.mlir.constant(0.0 : f32) : f32
  %zeros = llvm_ext.splat %zero : vector<8xf32>
  %positive = llvm_ext.fcmp "ogt" %v, %zeros : vector<8xf32>, vector<8xi1>
  %clipped = llvm_ext.select %positive, %v, %zeros : vector<8xi1>, vector<8xf32>
  %sum = llvm_ext.intrinsic "llvm.vector.reduce.fadd"(%zero, %clipped) {fastmathFlags = #llvm.fastmath<reassoc>}
    : (f32, vector<8xf32>) -> f32
  %at = llvm.getelementptr inbounds %floats[8] : (!llvm.ptr) -> !llvm.ptr, f32
  llvm.store %sum, %at : f32, !llvm.ptr
  %i = llvm_ext.cast "fptosi" %v : vector<8xf32> to vector<8xi32>
  %n = llvm_ext.intrinsic "llvm.smax"(%i, %i) : (vector<8xi32>, vector<8xi32>) -> vector<8xi32>
  llvm.store %n, %ints : vector<8xi32>, !llvm.ptr
  %k = llvm.mlir.constant(3) : i64
  %lane = llvm_ext.extractelement %n[%k] : vector<8xi32>, i64
  %last = llvm.getelementptr inbounds %ints[8] : (!llvm.ptr) -> !llvm.ptr, i32
  llvm.store %lane, %last : i32, !llvm.ptr
  llvm.return
}""",
        target,
    )
    x = np.linspace(-3, 4, 8, dtype=np.float32)
    floats, ints = np.zeros(9, np.float32), np.zeros(9, np.int32)
    call(library, "f", x, floats, ints)
    np.testing.assert_allclose(floats[:8], np.exp(x), rtol=3e-7)
    assert floats[8] == 10
    assert ints.tolist() == [-3, -2, -1, 0, 1, 2, 3, 4, 0]


def test_the_object_is_deterministic_and_its_symbols_are_found() -> None:
    text = print_module(parse("llvm.func @b() { llvm.return }\nllvm.func internal @c() { llvm.return }"))
    assert emit_object(text) == emit_object(text)
    assert defined_symbols(emit_object(text)) == ["b"]
    assert ".globl\tb" in assemble(text)
    assert target_machine(Target.parse("native")) is target_machine(Target.parse("native"))


def test_objects_link_in_any_order() -> None:
    caller = emit_object("declare i32 @callee()\ndefine i32 @caller() { %r = call i32 @callee() \n ret i32 %r }")
    callee = emit_object("define i32 @callee() { ret i32 7 }")
    for objects in ([caller, callee], [callee, caller]):
        library = Library.load(objects)
        assert ctypes.CFUNCTYPE(ctypes.c_int32)(library.address("caller"))() == 7
    given = Library.load([caller], {"callee": Library.load([callee]).address("callee")})
    assert given.symbols == ("caller",)


def test_a_shared_library(tmp_path: Path) -> None:
    data = emit_object("define i32 @seven() { ret i32 7 }")
    library = ctypes.CDLL(str(link_shared([data], tmp_path / "seven.so")))
    assert library.seven() == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("builtin.module { builtin.module {} }", "expected llvm.func or llvm.mlir.global in a module for LLVM"),
        (
            'llvm.func @f() { "llvm.inline_asm"() <{asm_string = "", constraints = ""}> : () -> () \n llvm.return }',
            "expected an operation that becomes LLVM IR, but got llvm.inline_asm",
        ),
    ],
)
def test_what_has_no_llvm_ir(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        print_module(parse(text))


def test_errors_of_the_back_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="expected LLVM IR, but got"):
        emit_object("define")
    late = "define i32 @f() {\n  ret i32 %1\nlast:\n  %1 = add i32 1, 2\n  ret i32 %1\n}"
    with pytest.raises(UserError, match="expected LLVM IR, but got: Instruction does not dominate all uses"):
        emit_object(late)
    with pytest.raises(UserError, match="expected objects that link"):
        Library.load([emit_object("declare void @nowhere()\ndefine void @f() { call void @nowhere() ret void }")])
    with pytest.raises(UserError, match="expected a 64-bit ELF object"):
        Library.load([b"nothing"])
    with pytest.raises(UserError, match=r"expected a symbol of the library \(f\), but got 'g'"):
        Library.load([emit_object("define void @f() { ret void }")]).address("g")
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(UserError, match="but got no 'no-such-compiler'; set CC"):
        link_shared([], tmp_path / "x.so")


def test_targets() -> None:
    assert Target.parse("x86-64-v2").lanes("f32") == 4
    assert Target.parse("x86-64-v3").lanes("bf16") == 16
    v4 = Target.parse("x86-64-v4")
    assert (v4.lanes("f32"), v4.vector_registers, v4.masked_memory) == (16, 32, True)
    narrow = Target.parse("x86-64-v4,-avx512f")
    assert (narrow.vector_bits, narrow.vector_registers, narrow.masked_memory) == (256, 16, False)
    assert not Target.parse("x86-64-v3,-fma").fma
    native = Target.parse("native")
    assert native is Target.parse(native)
    assert native.cores >= 1
    assert native.l1_bytes <= native.l2_bytes
    assert (dtype_bits("index"), dtype_bits(builtin.f32), dtype_bits("i1")) == (64, 32, 8)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "x86-64-v5",
            r"expected target to be one of native, c, x86-64, .* 'x86-64-v5' \(did you mean 'x86-64-v4'\?\)",
        ),
        ("znver4,avx2", r"expected a target feature like \+avx2 or -avx512f, but got 'avx2'"),
    ],
)
def test_wrong_targets(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Target.parse(text)


@pytest.mark.parametrize(("target", "lanes"), [("x86-64-v3", 8), ("x86-64-v4", 16)])
def test_spilled_vectors_do_not_cross_cache_lines(target: str, lanes: int) -> None:
    """More vectors live at once than there are registers; a slot that is not aligned costs two lines a reload."""
    vector, count = f"vector<{lanes}xf32>", 40
    loads, sums, stores = [], [], []
    for k in range(count):
        loads += [f"%p{k} = llvm.getelementptr %a[{lanes * k}] : (!llvm.ptr) -> !llvm.ptr, f32"]
        loads += [f"%x{k} = llvm.load %p{k} : !llvm.ptr -> {vector}"]
        sums += [f"%y{k} = llvm.fmul %x{k}, %x{k * 7 % count} : {vector}"]
        sums += [f"%z{k} = llvm.fadd %y{k}, %x{k * 11 % count} : {vector}"]
        stores += [f"%q{k} = llvm.getelementptr %b[{lanes * k}] : (!llvm.ptr) -> !llvm.ptr, f32"]
        stores += [f"llvm.store %z{k}, %q{k} : {vector}, !llvm.ptr"]
    body = "\n".join([*loads, *sums, *stores])
    text = f"llvm.func @f(%a : !llvm.ptr, %b : !llvm.ptr) {{\n{body}\nllvm.return\n}}"
    assembly = assemble(print_module(parse(text), target=target), target)
    reloads = [line for line in assembly.splitlines() if "(%rsp)" in line and "mm" in line]
    assert reloads
    assert not any("vmovups" in line for line in reloads)


def test_dtype_without_a_width() -> None:
    with pytest.raises(UserError, match="expected a type like f32, bf16, i8 or index, but got 'float'"):
        Target.parse("x86-64-v2").lanes("float")


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, 0.1, 3.4e38, 1e-45, float("inf"), float("nan"), 65504.0])
def test_float_constants_are_exact(value: float) -> None:
    text = f"define float @f() {{ ret float {float_text(value, builtin.f32)} }}"
    library = Library.load([emit_object(text)])
    got = ctypes.CFUNCTYPE(ctypes.c_float)(library.address("f"))()
    np.testing.assert_array_equal(np.float32(got), np.float32(value))
    with np.errstate(over="ignore"):
        assert int(float_text(value, builtin.f16)[3:], 16) == np.float16(value).view(np.uint16)


def test_bfloat_rounds_to_even() -> None:
    assert float_text(1.0, builtin.bf16) == "0xR3F80"
    assert float_text(1.00390625, builtin.bf16) == "0xR3F80"
    assert float_text(1.01171875, builtin.bf16) == "0xR3F82"
    assert float_text(float("nan"), builtin.bf16) == "0xR7FC0"


def test_bytes() -> None:
    assert bytes_text(b'a"\\\0') == 'c"a\\22\\5C\\00"'


def test_another_architecture() -> None:
    module = parse('llvm.func @f(%x : f32) -> f32 { %r = llvm_ext.math "exp"(%x) : f32 llvm.return %r : f32 }')
    assert "fmadd" in assemble(print_module(module, target="aarch64"), "aarch64")
