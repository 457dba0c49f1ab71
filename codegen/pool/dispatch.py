"""LLVM IR text of the pool: the runtime struct, and how a caller hands out work. See module.py."""

COMMON = """\
declare ptr @calloc(i64, i64)
declare void @free(ptr)
declare i32 @posix_memalign(ptr, i64, i64)

define i32 @mlc_runtime_reserve(ptr %rt, i64 %bytes) {
  %stride.p = getelementptr i8, ptr %rt, i64 {RT_SCRATCH_STRIDE}
  %stride = load i64, ptr %stride.p
  %enough = icmp sge i64 %stride, %bytes
  br i1 %enough, label %fine, label %grow
grow:
  %up = add i64 %bytes, 255
  %rounded = and i64 %up, -256
  %threads.p = getelementptr i8, ptr %rt, i64 {RT_THREADS}
  %threads = load i32, ptr %threads.p
  %threads.64 = sext i32 %threads to i64
  %size = mul i64 %rounded, %threads.64
  %room = alloca ptr
  %failed = call i32 @posix_memalign(ptr %room, i64 4096, i64 %size)
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %fail, label %store
store:
  %scratch.p = getelementptr i8, ptr %rt, i64 {RT_SCRATCH}
  %old = load ptr, ptr %scratch.p
  call void @free(ptr %old)
  %new = load ptr, ptr %room
  store ptr %new, ptr %scratch.p
  store i64 %rounded, ptr %stride.p
  br label %fine
fail:
  ret i32 %failed
fine:
  ret i32 0
}

define void @mlc_runtime_destroy(ptr %rt) {
  %null = icmp eq ptr %rt, null
  br i1 %null, label %end, label %live
live:
  %scratch.p = getelementptr i8, ptr %rt, i64 {RT_SCRATCH}
  %scratch = load ptr, ptr %scratch.p
  call void @free(ptr %scratch)
  call void @free(ptr %rt)
  br label %end
end:
  ret void
}

; Run tasks first to last - 1 on this thread; return the first error.
define internal i32 @mlc.range(ptr %rt, ptr %fn, ptr %ctx, i32 %first, i32 %last, i32 %thread) {
entry:
  %any = icmp slt i32 %first, %last
  br i1 %any, label %loop, label %end
loop:
  %task = phi i32 [%first, %entry], [%next, %more]
  %status = call i32 %fn(ptr %rt, ptr %ctx, i32 %task, i32 %thread)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %end, label %more
more:
  %next = add i32 %task, 1
  %again = icmp slt i32 %next, %last
  br i1 %again, label %loop, label %end
end:
  %result = phi i32 [0, %entry], [%status, %loop], [0, %more]
  ret i32 %result
}

define internal ptr @mlc.new_runtime(i32 %threads, ptr %pool) {
  %rt = call ptr @calloc(i64 1, i64 {RT_BYTES})
  %null = icmp eq ptr %rt, null
  br i1 %null, label %end, label %fill
fill:
  store i32 {ABI_VERSION}, ptr %rt
  %threads.p = getelementptr i8, ptr %rt, i64 {RT_THREADS}
  store i32 %threads, ptr %threads.p
  %for.p = getelementptr i8, ptr %rt, i64 {RT_PARALLEL_FOR}
  store ptr @mlc_parallel_for, ptr %for.p
  %pool.p = getelementptr i8, ptr %rt, i64 {RT_POOL}
  store ptr %pool, ptr %pool.p
  br label %end
end:
  ret ptr %rt
}
"""

SERIAL = """
define i32 @mlc_parallel_for(ptr %rt, ptr %fn, ptr %ctx, i32 %tasks, i32 %threads) {
  %result = call i32 @mlc.range(ptr %rt, ptr %fn, ptr %ctx, i32 0, i32 %tasks, i32 0)
  ret i32 %result
}

define ptr @mlc_runtime_create(i32 %threads) {
  %rt = call ptr @mlc.new_runtime(i32 1, ptr null)
  ret ptr %rt
}
"""

DISPATCH = """
; This thread's number: a worker's own in a nested call, else 0; never more than rt has.
define internal i32 @mlc.self(ptr %pool, i32 %threads) {
entry:
  %workers.p = getelementptr i8, ptr %pool, i64 {WORKERS}
  %workers = load atomic i32, ptr %workers.p acquire, align 4
  %none = icmp eq i32 %workers, 0
  br i1 %none, label %caller, label %look
look:
  %key.p = getelementptr i8, ptr %pool, i64 {KEY}
  %key = load i32, ptr %key.p
  %value = call ptr @pthread_getspecific(i32 %key)
  %number.64 = ptrtoint ptr %value to i64
  %number = trunc i64 %number.64 to i32
  %fits = icmp slt i32 %number, %threads
  %result = select i1 %fits, i32 %number, i32 0
  ret i32 %result
caller:
  ret i32 0
}

; Only where the kernel cannot wipe memory on fork: clear the pool in a child.
define internal void @mlc.check_fork(ptr %pool) {
  %pid.p = getelementptr i8, ptr %pool, i64 {OWNER_PID}
  %pid = load i32, ptr %pid.p
  %unused = icmp eq i32 %pid, 0
  br i1 %unused, label %end, label %ask
ask:
  %now = call i32 @getpid()
  %same = icmp eq i32 %now, %pid
  br i1 %same, label %end, label %child
child:
  call void @llvm.memset.p0.i64(ptr %pool, i8 0, i64 {POOL_BYTES}, i1 false)
  store i32 %now, ptr %pid.p
  br label %end
end:
  ret void
}

define i32 @mlc_parallel_for(ptr %rt, ptr %fn, ptr %ctx, i32 %tasks, i32 %threads) {
entry:
  %threads.p = getelementptr i8, ptr %rt, i64 {RT_THREADS}
  %most = load i32, ptr %threads.p
  %pool.p = getelementptr i8, ptr %rt, i64 {RT_POOL}
  %pool = load ptr, ptr %pool.p
  %poolless = icmp eq ptr %pool, null
  br i1 %poolless, label %stub, label %plan
stub:
  %result.stub = call i32 @mlc.range(ptr %rt, ptr %fn, ptr %ctx, i32 0, i32 %tasks, i32 0)
  ret i32 %result.stub
plan:
  call void @mlc.check_fork(ptr %pool)
  %asked = icmp sgt i32 %threads, 0
  %limit = select i1 %asked, i32 %threads, i32 %most
  %limit.1 = call i32 @llvm.smin.i32(i32 %limit, i32 %most)
  %n.0 = call i32 @llvm.smin.i32(i32 %limit.1, i32 %tasks)
  %single = icmp slt i32 %n.0, 2
  br i1 %single, label %serial, label %lock
lock:
  %locked = cmpxchg ptr %pool, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %locked, 1
  br i1 %mine, label %enough, label %serial
serial:
  %self = call i32 @mlc.self(ptr %pool, i32 %most)
  %result.serial = call i32 @mlc.range(ptr %rt, ptr %fn, ptr %ctx, i32 0, i32 %tasks, i32 %self)
  ret i32 %result.serial
enough:
  %workers.p = getelementptr i8, ptr %pool, i64 {WORKERS}
  %workers.0 = load i32, ptr %workers.p
  %wanted = sub i32 %n.0, 1
  %short = icmp slt i32 %workers.0, %wanted
  br i1 %short, label %grow, label %ready
grow:
  %grown = call i32 @mlc.grow(ptr %pool, i32 %wanted)
  br label %ready
ready:
  %workers = phi i32 [%workers.0, %enough], [%grown, %grow]
  %possible = add i32 %workers, 1
  %n = call i32 @llvm.smin.i32(i32 %n.0, i32 %possible)
  %n.64 = sext i32 %n to i64
  %tasks.64 = sext i32 %tasks to i64
  %second = sdiv i64 %tasks.64, %n.64
  %mine.last = trunc i64 %second to i32
  br label %publish
publish:
  %k = phi i32 [1, %ready], [%k.1, %write]
  %more = icmp slt i32 %k, %n
  br i1 %more, label %write, label %published
write:
  %slot = call ptr @mlc.slot(ptr %pool, i32 %k)
  %k.1 = add i32 %k, 1
  %k.64 = sext i32 %k to i64
  %k.1.64 = sext i32 %k.1 to i64
  %low = mul i64 %k.64, %tasks.64
  %high = mul i64 %k.1.64, %tasks.64
  %from.64 = sdiv i64 %low, %n.64
  %to.64 = sdiv i64 %high, %n.64
  %from = trunc i64 %from.64 to i32
  %to = trunc i64 %to.64 to i32
  %rt.p = getelementptr i8, ptr %slot, i64 {RT}
  store ptr %rt, ptr %rt.p
  %fn.p = getelementptr i8, ptr %slot, i64 {FN}
  store ptr %fn, ptr %fn.p
  %ctx.p = getelementptr i8, ptr %slot, i64 {CTX}
  store ptr %ctx, ptr %ctx.p
  %first.p = getelementptr i8, ptr %slot, i64 {FIRST}
  store i32 %from, ptr %first.p
  %last.p = getelementptr i8, ptr %slot, i64 {LAST}
  store i32 %to, ptr %last.p
  %epoch = load i32, ptr %slot
  %epoch.1 = add i32 %epoch, 1
  store atomic i32 %epoch.1, ptr %slot release, align 4
  br label %publish
published:
  ; Either this thread sees that a worker sleeps, or the worker sees the new epoch.
  fence seq_cst
  br label %rouse
rouse:
  %w = phi i32 [1, %published], [%w.1, %roused]
  %followed = phi i1 [false, %published], [%followed.1, %roused]
  %w.more = icmp slt i32 %w, %n
  br i1 %w.more, label %ask, label %run
ask:
  %w.slot = call ptr @mlc.slot(ptr %pool, i32 %w)
  %sleeping.p = getelementptr i8, ptr %w.slot, i64 {SLEEPING}
  %sleeping = load atomic i32, ptr %sleeping.p seq_cst, align 4
  %sleeps = icmp ne i32 %sleeping, 0
  br i1 %sleeps, label %wake, label %roused
wake:
  br i1 %followed, label %call, label %follow
follow:
  call void @mlc.follow(ptr %pool, i32 %workers)
  br label %call
call:
  %woke = call i64 (i64, ...) @syscall(i64 {FUTEX}, ptr %w.slot, i32 129, i32 1)
  br label %roused
roused:
  %followed.1 = phi i1 [%followed, %ask], [true, %call]
  %w.1 = add i32 %w, 1
  br label %rouse
run:
  %own = call i32 @mlc.range(ptr %rt, ptr %fn, ptr %ctx, i32 0, i32 %mine.last, i32 0)
  br label %join
join:
  %j = phi i32 [1, %run], [%j.1, %joined]
  %error = phi i32 [%own, %run], [%error.1, %joined]
  %j.more = icmp slt i32 %j, %n
  br i1 %j.more, label %await, label %unlock
await:
  %j.slot = call ptr @mlc.slot(ptr %pool, i32 %j)
  %j.epoch = load i32, ptr %j.slot
  %done.p = getelementptr i8, ptr %j.slot, i64 {DONE}
  br label %poll
poll:
  %polls = phi i32 [0, %await], [%polls.1, %paused]
  %done = load atomic i32, ptr %done.p acquire, align 4
  %finished = icmp eq i32 %done, %j.epoch
  br i1 %finished, label %joined, label %tick
tick:
  {PAUSE}
  %polls.1 = add i32 %polls, 1
  %tired = icmp sgt i32 %polls.1, {POLLS}
  br i1 %tired, label %yield, label %paused
yield:
  ; The worker may be waiting for this very CPU.
  %yielded = call i32 @sched_yield()
  br label %paused
paused:
  br label %poll
joined:
  %result.p = getelementptr i8, ptr %j.slot, i64 {RESULT}
  %result = load i32, ptr %result.p
  %no.error = icmp eq i32 %error, 0
  %error.1 = select i1 %no.error, i32 %result, i32 %error
  %j.1 = add i32 %j, 1
  br label %join
unlock:
  store atomic i32 0, ptr %pool release, align 4
  ret i32 %error
}
declare i32 @llvm.smin.i32(i32, i32)

; The process's pool, made by the first caller.
define internal ptr @mlc.pool() {
  %old = load atomic ptr, ptr @mlc_process_pool acquire, align 8
  %none = icmp eq ptr %old, null
  br i1 %none, label %make, label %have
have:
  ret ptr %old
make:
  ; PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS
  %new = call ptr @mmap(ptr null, i64 {POOL_BYTES}, i32 3, i32 34, i32 -1, i64 0)
  %address = ptrtoint ptr %new to i64
  %failed = icmp eq i64 %address, -1
  br i1 %failed, label %fail, label %mark
fail:
  ret ptr null
mark:
  ; MADV_WIPEONFORK
  %wiped = call i32 @madvise(ptr %new, i64 {POOL_BYTES}, i32 18)
  %unwiped = icmp ne i32 %wiped, 0
  br i1 %unwiped, label %remember, label %publish
remember:
  %pid = call i32 @getpid()
  %pid.p = getelementptr i8, ptr %new, i64 {OWNER_PID}
  store i32 %pid, ptr %pid.p
  br label %publish
publish:
  %swap = cmpxchg ptr @mlc_process_pool, ptr null, ptr %new acq_rel acquire
  %won = extractvalue { ptr, i1 } %swap, 1
  br i1 %won, label %mine, label %theirs
mine:
  ret ptr %new
theirs:
  %unmapped = call i32 @munmap(ptr %new, i64 {POOL_BYTES})
  %other = extractvalue { ptr, i1 } %swap, 0
  ret ptr %other
}

define ptr @mlc_runtime_create(i32 %threads) {
entry:
  %mask = alloca [{MASK_WORDS} x i64], align 8
  %given = icmp sgt i32 %threads, 0
  br i1 %given, label %known, label %count
count:
  call void @llvm.memset.p0.i64(ptr %mask, i8 0, i64 {MASK_BYTES}, i1 false)
  %ignored = call i32 @sched_getaffinity(i32 0, i64 {MASK_BYTES}, ptr %mask)
  br label %loop
loop:
  %i = phi i32 [0, %count], [%i.1, %loop]
  %sum = phi i64 [0, %count], [%sum.1, %loop]
  %p = getelementptr i64, ptr %mask, i32 %i
  %bits = load i64, ptr %p
  %ones = call i64 @llvm.ctpop.i64(i64 %bits)
  %sum.1 = add i64 %sum, %ones
  %i.1 = add i32 %i, 1
  %more = icmp slt i32 %i.1, {MASK_WORDS}
  br i1 %more, label %loop, label %counted
counted:
  %cpus = trunc i64 %sum.1 to i32
  br label %known
known:
  %n.0 = phi i32 [%threads, %entry], [%cpus, %counted]
  %n.1 = call i32 @llvm.smin.i32(i32 %n.0, i32 {MAX_THREADS})
  %n = call i32 @llvm.smax.i32(i32 %n.1, i32 1)
  %alone = icmp eq i32 %n, 1
  br i1 %alone, label %serial, label %pooled
serial:
  %rt.serial = call ptr @mlc.new_runtime(i32 1, ptr null)
  ret ptr %rt.serial
pooled:
  %pool = call ptr @mlc.pool()
  %rt = call ptr @mlc.new_runtime(i32 %n, ptr %pool)
  ret ptr %rt
}
declare i64 @llvm.ctpop.i64(i64)
declare i32 @llvm.smax.i32(i32, i32)
"""
