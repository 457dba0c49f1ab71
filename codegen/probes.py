"""
LLVM IR text of the probes: tasks that measure a machine, and a `parallel_for` that notes when each task ran.

Every artefact has them as an object of its own, so that a saved model is profiled without the compiler; exported
libraries leave them out. `runtime/peaks.py` and `runtime/tracing.py` call them.

    mlc_probe_lanes        i32 ()          f32 lanes of the vectors that the two probes below use
    mlc_probe_flops        task            independent chains of fused multiply-adds: the FMA peak
    mlc_probe_stream       task            sums a buffer with vector loads: the bandwidth of a level of memory
    mlc_probe_handover     task            two tasks pass one cache line to and fro
    mlc_probe_dispatch     void (ptr, i32, i32)    dispatches an empty task again and again
    mlc_run_calls          i32 (ptr, i64, ptr)     calls kernels one after another: straight-line code of the vm
    mlc_probe_traced_for   parallel_for    hands the tasks on to another parallel_for, and logs each one's times
"""

from mlc.support import abi
from mlc.support.abi import PROBE_CHAINS
from mlc.targets.target import Target

_STREAMS = 8
"""Independent accumulators of the stream: enough loads in flight to hide the latency of the caches."""

_LOOPS = """
; Two tasks take turns on one cache line: task 0 makes it odd, task 1 even.
define i32 @mlc_probe_handover(ptr %rt, ptr %ctx, i32 %task, i32 %thread) {
entry:
  %rounds.p = getelementptr i8, ptr %ctx, i64 128
  %rounds = load i32, ptr %rounds.p
  br label %spin
spin:
  %now = load atomic i32, ptr %ctx acquire, align 4
  %low = and i32 %now, 1
  %mine = icmp eq i32 %low, %task
  %over = icmp sge i32 %now, %rounds
  br i1 %over, label %end, label %look
look:
  br i1 %mine, label %hand, label %spin
hand:
  %next = add i32 %now, 1
  store atomic i32 %next, ptr %ctx release, align 4
  br label %spin
end:
  ret i32 0
}
; Call kernels: a list of pairs, a kernel and its arguments. Ends at the first error.
define i32 @mlc_run_calls(ptr %calls, i64 %count, ptr %rt) {
entry:
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %loop, label %done
loop:
  %i = phi i64 [0, %entry], [%i.1, %next]
  %first = shl i64 %i, 1
  %kernel.p = getelementptr ptr, ptr %calls, i64 %first
  %arguments.p = getelementptr ptr, ptr %kernel.p, i64 1
  %kernel = load ptr, ptr %kernel.p
  %arguments = load ptr, ptr %arguments.p
  %status = call i32 %kernel(ptr %arguments, ptr %rt)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %end, label %next
next:
  %i.1 = add i64 %i, 1
  %more = icmp slt i64 %i.1, %count
  br i1 %more, label %loop, label %done
end:
  ret i32 %status
done:
  ret i32 0
}
define i32 @mlc_probe_empty(ptr %rt, ptr %ctx, i32 %task, i32 %thread) {
  ret i32 0
}
; Dispatch the empty task many times.
define void @mlc_probe_dispatch(ptr %rt, i32 %times, i32 %threads) {
entry:
  br label %loop
loop:
  %i = phi i32 [0, %entry], [%i.1, %loop]
  %for.p = getelementptr i8, ptr %rt, i64 {RT_PARALLEL_FOR}
  %for = load ptr, ptr %for.p
  %ignored = call i32 %for(ptr %rt, ptr @mlc_probe_empty, ptr null, i32 %threads, i32 %threads)
  %i.1 = add i32 %i, 1
  %more = icmp slt i32 %i.1, %times
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""


_TRACED = """
declare i32 @clock_gettime(i32, ptr)

define internal i64 @mlc.now() {
  %time = alloca [2 x i64]
  %ignored = call i32 @clock_gettime(i32 {CLOCK_MONOTONIC}, ptr %time)
  %seconds = load i64, ptr %time
  %rest.p = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.p
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %rest
  ret i64 %sum
}

; ctx = { fn, its ctx, log };  log = { i64 count, { i64 start, i64 end, i32 task, i32 thread } entries... }
define internal i32 @mlc.traced_task(ptr %rt, ptr %ctx, i32 %task, i32 %thread) {
  %own.p = getelementptr ptr, ptr %ctx, i64 1
  %log.p = getelementptr ptr, ptr %ctx, i64 2
  %fn = load ptr, ptr %ctx
  %own = load ptr, ptr %own.p
  %log = load ptr, ptr %log.p
  %start = call i64 @mlc.now()
  %status = call i32 %fn(ptr %rt, ptr %own, i32 %task, i32 %thread)
  %end = call i64 @mlc.now()
  %slot = atomicrmw add ptr %log, i64 1 monotonic
  %room = icmp ult i64 %slot, {TRACE_CAPACITY}
  br i1 %room, label %note, label %done
note:
  %entries = getelementptr i8, ptr %log, i64 8
  %entry = getelementptr {i64, i64, i32, i32}, ptr %entries, i64 %slot
  %end.p = getelementptr i8, ptr %entry, i64 8
  %task.p = getelementptr i8, ptr %entry, i64 16
  %thread.p = getelementptr i8, ptr %entry, i64 20
  store i64 %start, ptr %entry
  store i64 %end, ptr %end.p
  store i32 %task, ptr %task.p
  store i32 %thread, ptr %thread.p
  br label %done
done:
  ret i32 %status
}

define i32 @mlc_probe_traced_for(ptr %rt, ptr %fn, ptr %ctx, i32 %tasks, i32 %threads) {
  %real.p = getelementptr i8, ptr %rt, i64 {RT_BYTES}
  %real = load ptr, ptr %real.p
  %log.p = getelementptr i8, ptr %rt, i64 {TRACE_LOG}
  %log = load ptr, ptr %log.p
  %for.p = getelementptr i8, ptr %real, i64 {RT_PARALLEL_FOR}
  %for = load ptr, ptr %for.p
  %wrapped = alloca [3 x ptr]
  %own.p = getelementptr ptr, ptr %wrapped, i64 1
  %out.p = getelementptr ptr, ptr %wrapped, i64 2
  store ptr %fn, ptr %wrapped
  store ptr %ctx, ptr %own.p
  store ptr %log, ptr %out.p
  %status = call i32 %for(ptr %real, ptr @mlc.traced_task, ptr %wrapped, i32 %tasks, i32 %threads)
  ret i32 %status
}
"""


def _loop(name: str, prologue: str, phis: list[str], body: str, finish: str, step: int) -> str:
    """Write a task `name` whose loop runs an index from 0 to the count at ctx + 8, by `step`."""
    listed = "\n  ".join(phis)
    return f"""
define i32 @{name}(ptr %rt, ptr %ctx, i32 %task, i32 %thread) {{
entry:
  %count.p = getelementptr i64, ptr %ctx, i64 1
  %count = load i64, ptr %count.p
{prologue}
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%i.1, %loop]
  {listed}
{body}
  %i.1 = add nuw nsw i64 %i, {step}
  %more = icmp ult i64 %i.1, %count
  br i1 %more, label %loop, label %end
end:
{finish}
  ret i32 0
}}"""


def _sink(vector: str, chains: int) -> str:
    """Add up the accumulators b0, b1, ... and store the sum on a page of the task's own."""
    adds = [f"  %s1 = fadd {vector} %b0, %b1"]
    adds += [f"  %s{k} = fadd {vector} %s{k - 1}, %b{k}" for k in range(2, chains)]
    return "\n".join(
        [
            "  %number = zext i32 %task to i64",
            "  %page = mul i64 %number, 4096",
            "  %offset = add i64 %page, 4096",
            "  %mine = getelementptr i8, ptr %ctx, i64 %offset",
            *adds,
            f"  store {vector} %s{chains - 1}, ptr %mine, align 64",
        ]
    )


def _flops(vector: str, lanes: int) -> str:
    """The task of the FMA peak: independent chains of b = a * 0.5 + 0.5."""
    fma, half = f"llvm.fma.v{lanes}f32", "splat (float 0.5)"
    phis = [f"%a{k} = phi {vector} [zeroinitializer, %entry], [%b{k}, %loop]" for k in range(PROBE_CHAINS)]
    body = [
        f"  %b{k} = call {vector} @{fma}({vector} %a{k}, {vector} {half}, {vector} {half})" for k in range(PROBE_CHAINS)
    ]
    declaration = f"declare {vector} @{fma}({vector}, {vector}, {vector})\n"
    return declaration + _loop("mlc_probe_flops", "", phis, "\n".join(body), _sink(vector, PROBE_CHAINS), 1)


def _stream(vector: str, lanes: int) -> str:
    """
    The task of the bandwidth: each sums its own part of the buffer whose address is at ctx, again and again.

    The floats of a part are a power of two, at ctx + 16.
    """
    prologue = """\
  %data = load ptr, ptr %ctx
  %size.p = getelementptr i64, ptr %ctx, i64 2
  %size = load i64, ptr %size.p
  %mask = sub i64 %size, 1
  %part = zext i32 %task to i64
  %skip = mul i64 %part, %size
  %base = getelementptr float, ptr %data, i64 %skip"""
    phis = [f"%a{k} = phi {vector} [zeroinitializer, %entry], [%b{k}, %loop]" for k in range(_STREAMS)]
    body = ["  %at = and i64 %i, %mask\n  %here = getelementptr float, ptr %base, i64 %at"]
    body += [
        f"  %p{k} = getelementptr float, ptr %here, i64 {k * lanes}\n"
        f"  %v{k} = load {vector}, ptr %p{k}, align 64\n  %b{k} = fadd {vector} %a{k}, %v{k}"
        for k in range(_STREAMS)
    ]
    return _loop("mlc_probe_stream", prologue, phis, "\n".join(body), _sink(vector, _STREAMS), _STREAMS * lanes)


def probes_module(target: Target) -> str:
    """The LLVM IR text of all probes for a target."""
    lanes = target.lanes("f32")
    vector = f"<{lanes} x float>"
    shared = _LOOPS + _TRACED
    for name, value in vars(abi).items():
        if isinstance(value, int):
            shared = shared.replace(f"{{{name}}}", str(value))
    width = f"define i32 @mlc_probe_lanes() {{\n  ret i32 {lanes}\n}}\n"
    return f'target triple = "{target.triple}"\n' + width + _flops(vector, lanes) + _stream(vector, lanes) + shared
