"""
The check that an exported library makes of the CPU, as LLVM IR that is compiled for any CPU of its machine.

    <prefix>_check_cpu(message, bytes)    0, or ENOTSUP and a message where the CPU lacks features that the code needs

The CPU is asked once; the answer is kept in a global variable, which two threads may set to the same value.
"""

from collections.abc import Collection, Iterable, Sequence

from mlc.targets.cpu_features import AARCH64, CPUS, LEVELS, MATRIX_FEATURES, X86
from mlc.targets.host import MATRIX_PERMISSION

ENOTSUP = 95
"""The status of a run on a CPU that lacks features: Linux's error number."""

_TEXT = """\
@{prefix}.cpu = internal global i64 -1, align 8
{constants}
declare i32 @snprintf(ptr, i64, ptr, ...)

define i32 @{prefix}_check_cpu(ptr %message, i64 %bytes) {{
entry:
  %known = load atomic i64, ptr @{prefix}.cpu monotonic, align 8
  %asked = icmp ne i64 %known, -1
  br i1 %asked, label %judge, label %ask
ask:
  %answer = call i64 @{prefix}.cpu_features()
  store atomic i64 %answer, ptr @{prefix}.cpu monotonic, align 8
  br label %judge
judge:
  %has = phi i64 [%known, %entry], [%answer, %ask]
  %lacks = xor i64 %has, -1
  %missing = and i64 %lacks, {needed}
  %good = icmp eq i64 %missing, 0
  br i1 %good, label %fine, label %refuse
fine:
  ret i32 0
refuse:
  %silent = icmp eq ptr %message, null
  br i1 %silent, label %told, label %tell
tell:
  call void @{prefix}.explain(ptr %message, i64 %bytes, i64 %missing, i64 %has)
  br label %told
told:
  ret i32 {status}
}}

define internal void @{prefix}.explain(ptr %message, i64 %bytes, i64 %missing, i64 %has) {{
entry:
  %head = call i64 @{prefix}.append(ptr %message, i64 %bytes, i64 0, ptr @{prefix}.head, ptr @{prefix}.empty)
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%k.1, %next]
  %at = phi i64 [%head, %entry], [%at.1, %next]
  %between = phi ptr [@{prefix}.blank, %entry], [%between.1, %next]
  %shifted = lshr i64 %missing, %k
  %is = trunc i64 %shifted to i1
  br i1 %is, label %name, label %next
name:
  %slot = getelementptr ptr, ptr @{prefix}.names, i64 %k
  %feature = load ptr, ptr %slot, align 8
  %end = call i64 @{prefix}.append(ptr %message, i64 %bytes, i64 %at, ptr %between, ptr %feature)
  br label %next
next:
  %at.1 = phi i64 [%at, %loop], [%end, %name]
  %between.1 = phi ptr [%between, %loop], [@{prefix}.comma, %name]
  %k.1 = add i64 %k, 1
  %more = icmp ult i64 %k.1, {count}
  br i1 %more, label %loop, label %last
last:
{levels}
  %tail = call i64 @{prefix}.append(ptr %message, i64 %bytes, i64 %at.1, ptr @{prefix}.tail, ptr {level})
  ret void
}}

; Two texts at an offset, cut to the bytes that there are; returns where they end.
define internal i64 @{prefix}.append(ptr %message, i64 %bytes, i64 %at, ptr %first, ptr %second) {{
  %from = call i64 @llvm.umin.i64(i64 %at, i64 %bytes)
  %to = getelementptr i8, ptr %message, i64 %from
  %room = sub i64 %bytes, %from
  %count = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %to, i64 %room, ptr @{prefix}.two, ptr %first, ptr %second)
  %long = sext i32 %count to i64
  %end = add i64 %at, %long
  ret i64 %end
}}
declare i64 @llvm.umin.i64(i64, i64)

"""
_CPUID = "={ax},={bx},={cx},={dx},{ax},{cx},~{dirflag},~{fpsr},~{flags}"
_REGISTERS = ("eax", "ebx", "ecx", "edx")
_X86_START = f"""\
define internal {{i32, i32, i32, i32}} @PREFIX.cpuid(i32 %leaf, i32 %subleaf, i32 %most, i32 %least) {{
  %four = call {{i32, i32, i32, i32}} asm sideeffect "cpuid", "{_CPUID}"(i32 %leaf, i32 %subleaf)
  %is = icmp uge i32 %most, %least
  %result = select i1 %is, {{i32, i32, i32, i32}} %four, {{i32, i32, i32, i32}} zeroinitializer
  ret {{i32, i32, i32, i32}} %result
}}

define internal i64 @PREFIX.cpu_features() {{
entry:
  %all = call {{i32, i32, i32, i32}} @PREFIX.cpuid(i32 0, i32 0, i32 0, i32 0)
  %most = extractvalue {{i32, i32, i32, i32}} %all, 0
  %l1.0 = call {{i32, i32, i32, i32}} @PREFIX.cpuid(i32 1, i32 0, i32 %most, i32 1)
  %l7.0 = call {{i32, i32, i32, i32}} @PREFIX.cpuid(i32 7, i32 0, i32 %most, i32 7)
  %subleaves = extractvalue {{i32, i32, i32, i32}} %l7.0, 0
  %l7.1 = call {{i32, i32, i32, i32}} @PREFIX.cpuid(i32 7, i32 1, i32 %subleaves, i32 1)
  %extended = call {{i32, i32, i32, i32}} @PREFIX.cpuid(i32 u0x80000000, i32 0, i32 0, i32 0)
  %most.x = extractvalue {{i32, i32, i32, i32}} %extended, 0
  %l2147483649.0 = call {{i32, i32, i32, i32}} @PREFIX.cpuid(i32 u0x80000001, i32 0, i32 %most.x, i32 u0x80000001)
  %ecx = extractvalue {{i32, i32, i32, i32}} %l1.0, 2
  %osxsave = and i32 %ecx, {1 << 27}
  %saves = icmp ne i32 %osxsave, 0
  br i1 %saves, label %ask, label %known
ask:
  %halves = call {{i32, i32}} asm sideeffect "xgetbv", "={{ax}},={{dx}},{{cx}}"(i32 0)
  %low = extractvalue {{i32, i32}} %halves, 0
  br label %known
known:
  %saved = phi i32 [0, %entry], [%low, %ask]
"""
_AARCH64_START = """\
declare i64 @getauxval(i64)
define internal i64 @PREFIX.cpu_features() {
  %word0 = call i64 @getauxval(i64 16)
  %word1 = call i64 @getauxval(i64 26)
"""


def check_text(prefix: str, machine: str, needed: Collection[str]) -> str:
    """The LLVM IR of `<prefix>_check_cpu` for code that uses the features `needed`."""
    names = list(X86 if machine == "x86_64" else AARCH64)
    texts = {
        "head": "expected a CPU with",
        "blank": " ",
        "empty": "",
        "comma": ", ",
        "tail": ", which this one lacks; compile for --target ",
        "two": "%s%s",
        **{f"feature{k}": name for k, name in enumerate(names)},
        **{f"level{k}": level for k, level in enumerate(LEVELS[machine])},
    }
    pointers = ", ".join(f"ptr @{prefix}.feature{k}" for k in range(len(names)))
    constants = [_constant(f"{prefix}.{name}", text) for name, text in texts.items()]
    constants.append(f"@{prefix}.names = internal constant [{len(names)} x ptr] [{pointers}]")
    levels, level = _levels(prefix, names, LEVELS[machine])
    text = _TEXT.format(
        prefix=prefix,
        constants="\n".join(constants),
        needed=_mask(names, needed),
        status=ENOTSUP,
        count=len(names),
        levels="\n".join(levels),
        level=level,
    )
    asks = bool(set(needed) & set(MATRIX_FEATURES))
    return text + (_x86(names, asks) if machine == "x86_64" else _aarch64(names)).replace("PREFIX", prefix)


def _constant(name: str, text: str) -> str:
    return f'@{name} = internal constant [{len(text) + 1} x i8] c"{text}\\00"'


def _mask(names: Sequence[str], chosen: Iterable[str]) -> int:
    """The chosen features as a bit mask: bit k stands for `names[k]`."""
    return sum(1 << names.index(name) for name in set(chosen) & set(names))


def _levels(prefix: str, names: Sequence[str], levels: Sequence[str]) -> tuple[list[str], str]:
    """
    IR that finds the first of `levels` whose features this CPU has, and the IR value that is the level's name.

    `levels` are in falling order, and the last one needs no features.
    """
    lines: list[str] = []
    best = f"@{prefix}.level{len(levels) - 1}"
    for k, level in reversed(list(enumerate(levels[:-1]))):
        mask = _mask(names, CPUS[level])
        lines += [
            f"  %of{k} = and i64 %has, {mask}",
            f"  %all{k} = icmp eq i64 %of{k}, {mask}",
            f"  %level{k} = select i1 %all{k}, ptr @{prefix}.level{k}, ptr {best}",
        ]
        best = f"%level{k}"
    return lines, best


def _x86(names: Sequence[str], asks: bool) -> str:
    """IR that reads the CPU's features as bits; `asks`: also ask the system to allow the matrix unit's registers."""
    lines, total = [_X86_START], "0"
    for k, feature in enumerate(X86[name] for name in names):
        leaf = f"%l{feature.leaf}.{feature.subleaf}"
        lines.append(f"""\
  %r{k} = extractvalue {{i32, i32, i32, i32}} {leaf}, {_REGISTERS.index(feature.register)}
  %b{k} = and i32 %r{k}, {1 << feature.bit}
  %has{k} = icmp ne i32 %b{k}, 0
  %s{k} = and i32 %saved, {feature.state}
  %kept{k} = icmp eq i32 %s{k}, {feature.state}
  %both{k} = and i1 %has{k}, %kept{k}
  %is{k} = select i1 %both{k}, i64 {1 << k}, i64 0
  %t{k} = or i64 {total}, %is{k}
""")
        total = f"%t{k}"
    if asks:
        arguments = ", ".join(f"i64 {n}" for n in MATRIX_PERMISSION)
        lines.insert(0, "declare i64 @syscall(i64, ...)\n")
        lines.append(f"""\
  %refused = call i64 (i64, ...) @syscall({arguments})
  %granted = icmp eq i64 %refused, 0
  %usable = select i1 %granted, i64 -1, i64 {~_mask(names, MATRIX_FEATURES)}
  %allowed = and i64 {total}, %usable
""")
        total = "%allowed"
    return "".join([*lines, f"  ret i64 {total}\n}}\n"])


def _aarch64(names: Sequence[str]) -> str:
    lines, total = [_AARCH64_START], "0"
    for k, feature in enumerate(AARCH64[name] for name in names):
        lines.append(f"""\
  %b{k} = and i64 %word{feature.word}, {1 << feature.bit}
  %has{k} = icmp ne i64 %b{k}, 0
  %is{k} = select i1 %has{k}, i64 {1 << k}, i64 0
  %t{k} = or i64 {total}, %is{k}
""")
        total = f"%t{k}"
    return "".join([*lines, f"  ret i64 {total}\n}}\n"])


__all__ = ["ENOTSUP", "check_text"]
