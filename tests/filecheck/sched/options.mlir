// RUN: mlc-opt %s -p 'loop-apply-schedule{until=1}' | filecheck %s --check-prefix=UNTIL
// RUN: mlc-opt %s -p 'loop-apply-schedule{print="all" verify=true}' 2>&1 | filecheck %s --check-prefix=ALL
// RUN: mlc-opt %s -p 'loop-apply-schedule{print="vectorize"}' 2>&1 | filecheck %s --check-prefix=ONE

// UNTIL:      loop.for %o = 0 to 2 {
// UNTIL-NEXT:   loop.for %i = 0 to 4 {
// UNTIL-NOT:  sched

// ALL:      IR after directive 1: sched.split
// ALL:      loop.for %i = 0 to 4 {
// ALL:      IR after directive 2: sched.vectorize
// ALL:      loop.for %i = 0 to 4 vectorized {
// ALL:      builtin.module

// ONE-NOT:  sched.split
// ONE:      IR after directive 2: sched.vectorize
loop.func @copy(%x: memref<8xf32>, %y: memref<8xf32>) attributes {outputs = 1 : i64} {
  loop.for %j = 0 to 8 {
    loop.block "copy" (%v : 8 = %j) {
      %a = loop.load %x[%v] : f32
      loop.store %a, %y[%v] : f32
    }
  }
}
sched.schedule @copy {
  %c = sched.block "copy" : !sched.block
  %j = sched.loops %c : 1
  %o, %i = sched.split %j [?, 4]
  sched.vectorize %i
}
