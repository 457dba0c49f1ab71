// RUN: mlc-opt %s --pass-pipeline=canonicalize,cse,dce | filecheck %s

// Directives act by their order: none is dropped, merged or moved, with results that nobody uses or equal to another.
// CHECK-LABEL: sched.schedule @keeps {
// CHECK-NEXT:    %c = sched.block "dense" : !sched.block
// CHECK-NEXT:    %d = sched.block "dense" : !sched.block
// CHECK-NEXT:    %i, %j = sched.loops %c : 2
// CHECK-NEXT:    %t = sched.knob "tile" [16, 32] default 32
// CHECK-NEXT:    %jo, %ji = sched.split %j [?, 16]
// CHECK-NEXT:    %r = sched.cache_read %c[0] "local"
// CHECK-NEXT:    sched.parallel %i
// CHECK-NEXT:  }
sched.schedule @keeps {
  %c = sched.block "dense" : !sched.block
  %d = sched.block "dense" : !sched.block
  %i, %j = sched.loops %c : 2
  %t = sched.knob "tile" [16, 32] default 32
  %jo, %ji = sched.split %j [?, 16]
  %r = sched.cache_read %c[0] "local"
  sched.parallel %i
}
