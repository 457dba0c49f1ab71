// RUN: mlc-opt %s | mlc-opt | filecheck %s
// RUN: mlc-opt %s --print-op-generic | mlc-opt | filecheck %s

// CHECK-LABEL: sched.schedule @handles {
// CHECK-NEXT:    %c = sched.block "dense" : !sched.block
// CHECK-NEXT:    %i, %j, %k = sched.loops %c : 3
// CHECK-NEXT:    %a, %b = sched.loops %c under %i : 2
// CHECK-NEXT:    %x = sched.child %i at 1 : !sched.loop
// CHECK-NEXT:    %t = sched.knob "tile_j" [16, 32, 64] default 32
sched.schedule @handles {
  %c = sched.block "dense" : !sched.block
  %i, %j, %k = sched.loops %c : 3
  %a, %b = sched.loops %c under %i : 2
  %x = sched.child %i at 1 : !sched.loop
  %t = sched.knob "tile_j" [16, 32, 64] default 32
}

// CHECK-LABEL: sched.schedule @on_loops {
// CHECK:         %jo, %ji = sched.split %j [?, %t]
// CHECK-NEXT:    %0, %1, %2 = sched.split %k [2, ?, 4]
// CHECK-NEXT:    %3, %4, %5, %6 = sched.tile %i, %jo [4, %t]
// CHECK-NEXT:    %f = sched.fuse %3, %4
// CHECK-NEXT:    sched.reorder %f, %0, %ji
// CHECK-NEXT:    %m, %r = sched.peel %f by 1
// CHECK-NEXT:    sched.parallel %m
// CHECK-NEXT:    sched.vectorize %5, %6
// CHECK-NEXT:    sched.unroll %0
// CHECK-NEXT:    sched.bind %r to "blockIdx.x"
// CHECK-NEXT:    sched.pragma %1 "prefetch" = 4 : i64
// CHECK-NEXT:    sched.tensorize %2 "dot_accumulate"
sched.schedule @on_loops {
  %c = sched.block "dense" : !sched.block
  %i, %j, %k = sched.loops %c : 3
  %t = sched.knob "tile_j" [16, 32, 64] default 32
  %jo, %ji = sched.split %j [?, %t]
  %0, %1, %2 = sched.split %k [2, ?, 4]
  %3, %4, %5, %6 = sched.tile %i, %jo [4, %t]
  %f = sched.fuse %3, %4
  sched.reorder %f, %0, %ji
  %m, %r = sched.peel %f by 1
  sched.parallel %m
  sched.vectorize %5, %6
  sched.unroll %0
  sched.bind %r to "blockIdx.x"
  sched.pragma %1 "prefetch" = 4
  sched.tensorize %2 "dot_accumulate"
}

// CHECK-LABEL: sched.schedule @on_blocks {
// CHECK:         sched.compute_at %c at %i
// CHECK-NEXT:    sched.reverse_compute_at %c at %i
// CHECK-NEXT:    %0 = sched.cache_read %c[0] "local"
// CHECK-NEXT:    %1 = sched.cache_read %c[1] "local" as f32
// CHECK-NEXT:    %2 = sched.cache_write %c "local"
// CHECK-NEXT:    %3 = sched.rfactor %i axis 0
// CHECK-NEXT:    sched.set_scope %c "local"
// CHECK-NEXT:    sched.storage_align %c axis 0 factor 32 offset 8
// CHECK-NEXT:    sched.transform_layout %0 [d1, d0 floordiv 16, (d0 mod 16)]
// CHECK-NEXT:    %init, %update = sched.decompose_reduction %c at %i
// CHECK-NEXT:    sched.compute_inline %update
sched.schedule @on_blocks {
  %c = sched.block "dense" : !sched.block
  %i = sched.loops %c : 1
  sched.compute_at %c at %i
  sched.reverse_compute_at %c at %i
  %0 = sched.cache_read %c[0] "local"
  %1 = sched.cache_read %c[1] "local" as f32
  %2 = sched.cache_write %c "local"
  %3 = sched.rfactor %i axis 0
  sched.set_scope %c "local"
  sched.storage_align %c axis 0 factor 32 offset 8
  sched.transform_layout %0 [d1, d0 floordiv 16, d0 mod 16]
  %init, %update = sched.decompose_reduction %c at %i
  sched.compute_inline %update
}

// CHECK-LABEL: sched.schedule @knobs {
// CHECK-NEXT:    %t = sched.knob "tile" [16, 32] default 32 value 16
// CHECK-NEXT:    %p = sched.knob "pack" ["auto", "on", "off"] default "auto" value "off"
// CHECK-NEXT:    %o = sched.knob "order" {{\[\[0, 1\], \[1, 0\]\]}} default [0, 1]
sched.schedule @knobs {
  %t = sched.knob "tile" [16, 32] default 32 value 16
  %p = sched.knob "pack" ["auto", "on", "off"] default "auto" value "off"
  %o = sched.knob "order" [[0, 1], [1, 0]] default [0, 1]
}
