"""LLVM IR that CPUs with one feature compute by its instruction, and CPUs without it otherwise."""


def unary(type_: str, function: str, suffix: str, rest: str = "", rest_types: str = "") -> str:
    """A call of an intrinsic of one operand."""
    name = f"@llvm.{function}.{suffix}"
    return (
        f"define {type_} @f({type_} %x) {{\n  %y = call {type_} {name}({type_} %x{rest})\n  ret {type_} %y\n}}\n"
        f"declare {type_} {name}({type_}{rest_types})\n"
    )


def binary(type_: str, instruction: str, result: str = "") -> str:
    """An instruction of two operands."""
    result = result or type_
    return (
        f"define {result} @f({type_} %x, {type_} %y) {{\n  %z = {instruction} {type_} %x, %y\n  ret {result} %z\n}}\n"
    )


def ternary(type_: str, function: str, suffix: str) -> str:
    """A call of an intrinsic of three operands."""
    name, given = f"@llvm.{function}.{suffix}", ", ".join(f"{type_} %{x}" for x in "xyz")
    return (
        f"define {type_} @f({given}) {{\n  %w = call {type_} {name}({given})\n  ret {type_} %w\n}}\n"
        f"declare {type_} {name}({type_}, {type_}, {type_})\n"
    )


def convert(source: str, instruction: str, target: str) -> str:
    """A conversion."""
    return f"define {target} @f({source} %x) {{\n  %y = {instruction} {source} %x to {target}\n  ret {target} %y\n}}\n"


_SWAP = """\
define i64 @f(ptr %p) {
  %x = load i64, ptr %p
  %y = call i64 @llvm.bswap.i64(i64 %x)
  ret i64 %y
}
declare i64 @llvm.bswap.i64(i64)
"""
_EXCHANGE = """\
define i128 @f(ptr %p, i128 %x, i128 %y) {
  %z = cmpxchg ptr %p, i128 %x, i128 %y seq_cst seq_cst, align 16
  %w = extractvalue { i128, i1 } %z, 0
  ret i128 %w
}
"""
_TWICE = """\
define <2 x double> @f(ptr %p) {
  %x = load double, ptr %p
  %y = insertelement <2 x double> poison, double %x, i32 0
  %z = shufflevector <2 x double> %y, <2 x double> poison, <2 x i32> zeroinitializer
  ret <2 x double> %z
}
"""
_ORDER = ", ".join(f"i32 {k}" for k in (5, 3, 9, 0, 1, 15, 2, 4, 6, 14, 7, 8, 13, 10, 12, 11))
_SHUFFLE = f"""\
define <16 x i8> @f(<16 x i8> %x) {{
  %y = shufflevector <16 x i8> %x, <16 x i8> poison, <16 x i32> <{_ORDER}>
  ret <16 x i8> %y
}}
"""
_STREAM = """\
define void @f(float %x, ptr %p) {
  store float %x, ptr %p, align 4, !nontemporal !0
  ret void
}
!0 = !{i32 1}
"""

# By feature: the text, and a word that its assembly has then and only then.
PROBES: dict[str, tuple[str, str]] = {
    "popcnt": (unary("i64", "ctpop", "i64"), "popcnt"),
    "lzcnt": (unary("i64", "ctlz", "i64", ", i1 false", ", i1"), "lzcnt"),
    "bmi": (unary("i64", "cttz", "i64", ", i1 false", ", i1"), "tzcnt"),
    "bmi2": (binary("i64", "shl"), "shlx"),
    "movbe": (_SWAP, "movbe"),
    "cx16": (_EXCHANGE, "cmpxchg16b"),
    "sse3": (_TWICE, "movddup"),
    "ssse3": (_SHUFFLE, "pshufb"),
    "sse4.1": (binary("<4 x i32>", "mul"), "pmulld"),
    "sse4.2": (binary("<2 x i64>", "icmp sgt", "<2 x i1>"), "pcmpgtq"),
    "avx": (binary("<8 x float>", "fadd"), "vaddps"),
    "avx2": (binary("<8 x i32>", "add"), "%ymm"),
    "fma": (ternary("float", "fma", "f32"), "vfmadd"),
    "f16c": (convert("<4 x half>", "fpext", "<4 x float>"), "vcvtph2ps"),
    "gfni": (unary("<16 x i8>", "bitreverse", "v16i8"), "gf2p8affineqb"),
    "sse4a": (_STREAM, "movntss"),
    "avx512cd": (unary("<16 x i32>", "ctlz", "v16i32", ", i1 false", ", i1"), "vplzcntd"),
    "avx512dq": (binary("<8 x i64>", "mul"), "vpmullq"),
    "avx512vpopcntdq": (unary("<16 x i32>", "ctpop", "v16i32"), "vpopcntd"),
    "avx512bitalg": (unary("<64 x i8>", "ctpop", "v64i8"), "vpopcntb"),
    "avx512vbmi2": (ternary("<16 x i32>", "fshl", "v16i32"), "vpshldvd"),
    "avx512bf16": (convert("<16 x float>", "fptrunc", "<16 x bfloat>"), "vcvtneps2bf16"),
    "avx512fp16": (binary("half", "fadd"), "vaddsh"),
}
