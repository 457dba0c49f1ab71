"""
LLVM IR text with which the runner of a tuner times kernels (tuning/measure/evaluator.py).

    i32  mlc_time_calls(kernel, args, rt, i64 number, ptr ns)   calls a kernel `number` times; writes the nanoseconds
    void mlc_flush_cache(ptr begin, i64 bytes)                  drives an array from all caches
    void mlc_note_fault(i32 signal, ptr info, ptr context)      signal handler: notes the address of a wild access
    ptr* mlc_fault_note                                         where it is noted: { i64 address, i64 signal }
"""

from mlc.support.abi import CLOCK_MONOTONIC
from mlc.support.alignment import LINE_BYTES
from mlc.targets.target import Target

_SI_ADDR = 16
"""Offset in bytes of the faulting address in Linux's siginfo_t, on 64-bit machines."""

_TIMING = f"""
declare i32 @clock_gettime(i32, ptr)
declare ptr @signal(i32, ptr)

define internal i64 @mlc.evaluator_now() {{
  %time = alloca [2 x i64]
  %ignored = call i32 @clock_gettime(i32 {CLOCK_MONOTONIC}, ptr %time)
  %seconds = load i64, ptr %time
  %rest.p = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.p
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %rest
  ret i64 %sum
}}

define i32 @mlc_time_calls(ptr %kernel, ptr %args, ptr %rt, i64 %number, ptr %ns) {{
entry:
  %start = call i64 @mlc.evaluator_now()
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%i.1, %next]
  %status = call i32 %kernel(ptr %args, ptr %rt)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %end, label %next
next:
  %i.1 = add i64 %i, 1
  %more = icmp slt i64 %i.1, %number
  br i1 %more, label %loop, label %end
end:
  %stop = call i64 @mlc.evaluator_now()
  %spent = sub i64 %stop, %start
  store i64 %spent, ptr %ns
  ret i32 %status
}}

@mlc_fault_note = global ptr null

; The access is repeated when the handler returns, and then ends the process: the signal has its default action again.
define void @mlc_note_fault(i32 %signal, ptr %info, ptr %context) {{
  %address.p = getelementptr i8, ptr %info, i64 {_SI_ADDR}
  %address = load i64, ptr %address.p
  %where.p = load ptr, ptr @mlc_fault_note
  store i64 %address, ptr %where.p
  %signal.p = getelementptr i64, ptr %where.p, i64 1
  %number = sext i32 %signal to i64
  store i64 %number, ptr %signal.p
  %ignored = call ptr @signal(i32 %signal, ptr null)
  ret void
}}
"""

_FLUSH = """
define void @mlc_flush_cache(ptr %begin, i64 %bytes) {{
entry:
  br label %loop
loop:
  %at = phi i64 [0, %entry], [%at.1, %loop]
  %line = getelementptr i8, ptr %begin, i64 %at
  {line}
  %at.1 = add i64 %at, {step}
  %more = icmp ult i64 %at.1, %bytes
  br i1 %more, label %loop, label %end
end:
  {fence}
  ret void
}}
"""

_FLUSHES = {
    "x86_64": (
        "call void @llvm.x86.sse2.clflush(ptr %line)",
        "call void @llvm.x86.sse2.mfence()",
        "declare void @llvm.x86.sse2.clflush(ptr)\ndeclare void @llvm.x86.sse2.mfence()\n",
    ),
    "aarch64": (
        'call void asm sideeffect "dc civac, $0", "r,~{memory}"(ptr %line)',
        'call void asm sideeffect "dsb sy", "~{memory}"()',
        "",
    ),
}
"""The instructions that evict a line of the caches, and that wait for all of them, by architecture."""


def can_flush(target: Target) -> bool:
    """Whether programs of this machine can drive data from the caches."""
    return target.architecture in _FLUSHES


def evaluator_module(target: Target) -> str:
    """The LLVM IR text for a target of 64 bits."""
    text = f'target triple = "{target.triple}"\n{_TIMING}'
    if not can_flush(target):
        return text
    line, fence, declarations = _FLUSHES[target.architecture]
    return text + declarations + _FLUSH.format(line=line, fence=fence, step=LINE_BYTES)
