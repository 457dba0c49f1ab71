"""LLVM IR text of the pool: the workers, where they are pinned, and how they are started. See module.py."""

WORKERS_TEXT = """
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @pthread_key_create(ptr, ptr)
declare i32 @pthread_setspecific(i32, ptr)
declare ptr @pthread_getspecific(i32)
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare i32 @sched_getcpu()
declare i32 @sched_yield()
declare i32 @getpid()
declare i32 @clock_gettime(i32, ptr)
declare i64 @syscall(i64, ...)
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @madvise(ptr, i64, i32)
{DECLARE_PAUSE}

; The pool of this process. Unique over all libraries that are loaded (see `module`).
{POOL_POINTER}

define internal ptr @mlc.slot(ptr %pool, i32 %k) alwaysinline {
  %k.64 = sext i32 %k to i64
  %at = mul i64 %k.64, {SLOT_BYTES}
  %offset = add i64 %at, {SLOTS}
  %slot = getelementptr i8, ptr %pool, i64 %offset
  ret ptr %slot
}

define internal ptr @mlc.worker(ptr %slot) {
entry:
  %pool.p = getelementptr i8, ptr %slot, i64 {POOL_OF}
  %pool = load ptr, ptr %pool.p
  %index.p = getelementptr i8, ptr %slot, i64 {INDEX}
  %index = load i32, ptr %index.p
  %key.p = getelementptr i8, ptr %pool, i64 {KEY}
  %key = load i32, ptr %key.p
  %index.64 = zext i32 %index to i64
  %index.ptr = inttoptr i64 %index.64 to ptr
  %set = call i32 @pthread_setspecific(i32 %key, ptr %index.ptr)
  %tid.64 = call i64 (i64, ...) @syscall(i64 {GETTID})
  %tid = trunc i64 %tid.64 to i32
  %tid.p = getelementptr i8, ptr %slot, i64 {TID}
  store atomic i32 %tid, ptr %tid.p release, align 4
  call void @mlc.pin(ptr %pool, i32 %index)
  %spin.p = getelementptr i8, ptr %pool, i64 {SPIN}
  %sleeping.p = getelementptr i8, ptr %slot, i64 {SLEEPING}
  %done.p = getelementptr i8, ptr %slot, i64 {DONE}
  %result.p = getelementptr i8, ptr %slot, i64 {RESULT}
  %rt.p = getelementptr i8, ptr %slot, i64 {RT}
  %fn.p = getelementptr i8, ptr %slot, i64 {FN}
  %ctx.p = getelementptr i8, ptr %slot, i64 {CTX}
  %first.p = getelementptr i8, ptr %slot, i64 {FIRST}
  %last.p = getelementptr i8, ptr %slot, i64 {LAST}
  br label %wait
wait:
  %seen = phi i32 [0, %entry], [%epoch, %work]
  %limit = load i32, ptr %spin.p
  br label %spin
spin:
  %count = phi i32 [0, %wait], [%count.1, %pause]
  %now = load atomic i32, ptr %slot acquire, align 4
  %changed = icmp ne i32 %now, %seen
  br i1 %changed, label %work, label %pause
pause:
  {PAUSE}
  %count.1 = add i32 %count, 1
  %patient = icmp slt i32 %count.1, %limit
  br i1 %patient, label %spin, label %sleep
sleep:
  store atomic i32 1, ptr %sleeping.p seq_cst, align 4
  fence seq_cst
  br label %check
check:
  %later = load atomic i32, ptr %slot seq_cst, align 4
  %woken = icmp ne i32 %later, %seen
  br i1 %woken, label %awake, label %block
block:
  ; FUTEX_WAIT_PRIVATE: returns at once when the epoch is no longer the one seen
  %ignored = call i64 (i64, ...) @syscall(i64 {FUTEX}, ptr %slot, i32 128, i32 %seen, ptr null)
  br label %check
awake:
  store atomic i32 0, ptr %sleeping.p release, align 4
  br label %work
work:
  %epoch = phi i32 [%now, %spin], [%later, %awake]
  %rt = load ptr, ptr %rt.p
  %fn = load ptr, ptr %fn.p
  %ctx = load ptr, ptr %ctx.p
  %first = load i32, ptr %first.p
  %last = load i32, ptr %last.p
  %status = call i32 @mlc.range(ptr %rt, ptr %fn, ptr %ctx, i32 %first, i32 %last, i32 %index)
  store i32 %status, ptr %result.p
  store atomic i32 %epoch, ptr %done.p release, align 4
  br label %wait
}

; Pin worker %k to the CPU that is k places after the caller's in the list.
define internal void @mlc.pin(ptr %pool, i32 %k) {
entry:
  %mask = alloca [{MASK_WORDS} x i64], align 8
  %cpus.p = getelementptr i8, ptr %pool, i64 {CPUS}
  %cpus = load i32, ptr %cpus.p
  %one = icmp slt i32 %cpus, 2
  br i1 %one, label %end, label %pin
pin:
  %base.p = getelementptr i8, ptr %pool, i64 {BASE}
  %base = load i32, ptr %base.p
  %sum = add i32 %base, %k
  %at = urem i32 %sum, %cpus
  %list = getelementptr i8, ptr %pool, i64 {CPU_LIST}
  %cpu.p = getelementptr i32, ptr %list, i32 %at
  %cpu = load i32, ptr %cpu.p
  call void @llvm.memset.p0.i64(ptr %mask, i8 0, i64 {MASK_BYTES}, i1 false)
  %word = lshr i32 %cpu, 6
  %bit = and i32 %cpu, 63
  %bit.64 = zext i32 %bit to i64
  %value = shl i64 1, %bit.64
  %word.p = getelementptr i64, ptr %mask, i32 %word
  store i64 %value, ptr %word.p
  %slot = call ptr @mlc.slot(ptr %pool, i32 %k)
  %tid.p = getelementptr i8, ptr %slot, i64 {TID}
  %tid = load atomic i32, ptr %tid.p acquire, align 4
  %known = icmp ne i32 %tid, 0
  br i1 %known, label %set, label %end
set:
  %ignored = call i32 @sched_setaffinity(i32 %tid, i64 {MASK_BYTES}, ptr %mask)
  br label %end
end:
  ret void
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; The place of the caller's CPU in the list, 0 if it is not there.
define internal i32 @mlc.caller_place(ptr %pool) {
entry:
  %cpu = call i32 @sched_getcpu()
  %cpus.p = getelementptr i8, ptr %pool, i64 {CPUS}
  %cpus = load i32, ptr %cpus.p
  %list = getelementptr i8, ptr %pool, i64 {CPU_LIST}
  br label %loop
loop:
  %i = phi i32 [0, %entry], [%i.1, %next]
  %more = icmp slt i32 %i, %cpus
  br i1 %more, label %look, label %none
look:
  %p = getelementptr i32, ptr %list, i32 %i
  %there = load i32, ptr %p
  %same = icmp eq i32 %there, %cpu
  br i1 %same, label %found, label %next
next:
  %i.1 = add i32 %i, 1
  br label %loop
found:
  ret i32 %i
none:
  ret i32 0
}

; Pin all workers anew if the caller has moved to another CPU.
define internal void @mlc.follow(ptr %pool, i32 %workers) {
entry:
  %base.p = getelementptr i8, ptr %pool, i64 {BASE}
  %base = load i32, ptr %base.p
  %place = call i32 @mlc.caller_place(ptr %pool)
  %same = icmp eq i32 %base, %place
  br i1 %same, label %end, label %moved
moved:
  store i32 %place, ptr %base.p
  br label %loop
loop:
  %k = phi i32 [1, %moved], [%k.1, %body]
  %more = icmp sle i32 %k, %workers
  br i1 %more, label %body, label %end
body:
  call void @mlc.pin(ptr %pool, i32 %k)
  %k.1 = add i32 %k, 1
  br label %loop
end:
  ret void
}

define internal i64 @mlc.nanoseconds() {
  %time = alloca [2 x i64], align 8
  %ignored = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %rest.p = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.p
  %scaled = mul i64 %seconds, 1000000000
  %sum = add i64 %scaled, %rest
  ret i64 %sum
}

; How many pauses fill the time that a worker spins; hardly any where threads share a CPU.
define internal i32 @mlc.calibrate(i32 %cpus) {
entry:
  %alone = icmp slt i32 %cpus, 2
  br i1 %alone, label %few, label %start
start:
  %begin = call i64 @mlc.nanoseconds()
  br label %loop
loop:
  %i = phi i32 [0, %start], [%i.1, %loop]
  {PAUSE}
  %i.1 = add i32 %i, 1
  %again = icmp slt i32 %i.1, {SPIN_SAMPLE}
  br i1 %again, label %loop, label %measured
measured:
  %end = call i64 @mlc.nanoseconds()
  %spent = sub i64 %end, %begin
  %some = call i64 @llvm.smax.i64(i64 %spent, i64 500)
  %pauses = udiv i64 {SPIN_WORK}, %some
  %result = trunc i64 %pauses to i32
  ret i32 %result
few:
  ret i32 50
}
declare i64 @llvm.smax.i64(i64, i64)

; Read the affinity mask, measure the pause, make the key. Under the lock.
define internal void @mlc.prepare(ptr %pool) {
entry:
  %mask = alloca [{MASK_WORDS} x i64], align 8
  call void @llvm.memset.p0.i64(ptr %mask, i8 0, i64 {MASK_BYTES}, i1 false)
  %ignored = call i32 @sched_getaffinity(i32 0, i64 {MASK_BYTES}, ptr %mask)
  %list = getelementptr i8, ptr %pool, i64 {CPU_LIST}
  br label %loop
loop:
  %cpu = phi i32 [0, %entry], [%cpu.1, %next]
  %count = phi i32 [0, %entry], [%count.2, %next]
  %word = lshr i32 %cpu, 6
  %bit = and i32 %cpu, 63
  %bit.64 = zext i32 %bit to i64
  %word.p = getelementptr i64, ptr %mask, i32 %word
  %bits = load i64, ptr %word.p
  %shifted = lshr i64 %bits, %bit.64
  %present = trunc i64 %shifted to i1
  br i1 %present, label %add, label %next
add:
  %p = getelementptr i32, ptr %list, i32 %count
  store i32 %cpu, ptr %p
  %count.1 = add i32 %count, 1
  br label %next
next:
  %count.2 = phi i32 [%count, %loop], [%count.1, %add]
  %cpu.1 = add i32 %cpu, 1
  %more = icmp slt i32 %cpu.1, {MAX_CPUS}
  br i1 %more, label %loop, label %store
store:
  %cpus.p = getelementptr i8, ptr %pool, i64 {CPUS}
  store i32 %count.2, ptr %cpus.p
  %place = call i32 @mlc.caller_place(ptr %pool)
  %base.p = getelementptr i8, ptr %pool, i64 {BASE}
  store i32 %place, ptr %base.p
  %key.p = getelementptr i8, ptr %pool, i64 {KEY}
  %made = call i32 @pthread_key_create(ptr %key.p, ptr null)
  %pauses = call i32 @mlc.calibrate(i32 %count.2)
  %spin.p = getelementptr i8, ptr %pool, i64 {SPIN}
  store i32 %pauses, ptr %spin.p
  ret void
}

; Start workers until there are %wanted; return how many there are. Under the lock.
define internal i32 @mlc.grow(ptr %pool, i32 %wanted) {
entry:
  %blocked = alloca [16 x i64], align 8
  %before = alloca [16 x i64], align 8
  %thread = alloca i64, align 8
  %workers.p = getelementptr i8, ptr %pool, i64 {WORKERS}
  %workers = load i32, ptr %workers.p
  %first = icmp eq i32 %workers, 0
  br i1 %first, label %prepare, label %mask
prepare:
  call void @mlc.prepare(ptr %pool)
  br label %mask
mask:
  call void @llvm.memset.p0.i64(ptr %blocked, i8 -1, i64 128, i1 false)
  store i64 {SIGNAL_MASK}, ptr %blocked
  %masked = call i32 @pthread_sigmask(i32 2, ptr %blocked, ptr %before)
  br label %loop
loop:
  %have = phi i32 [%workers, %mask], [%k, %started]
  %more = icmp slt i32 %have, %wanted
  br i1 %more, label %start, label %end
start:
  %k = add i32 %have, 1
  %slot = call ptr @mlc.slot(ptr %pool, i32 %k)
  %pool.p = getelementptr i8, ptr %slot, i64 {POOL_OF}
  store ptr %pool, ptr %pool.p
  %index.p = getelementptr i8, ptr %slot, i64 {INDEX}
  store i32 %k, ptr %index.p
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @mlc.worker, ptr %slot)
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %end, label %started
started:
  %id = load i64, ptr %thread
  %detached = call i32 @pthread_detach(i64 %id)
  br label %loop
end:
  %total = phi i32 [%have, %loop], [%have, %start]
  %restored = call i32 @pthread_sigmask(i32 2, ptr %before, ptr null)
  store atomic i32 %total, ptr %workers.p release, align 4
  ret i32 %total
}

"""
