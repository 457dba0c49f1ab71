// RUN: mlc-opt %s -p 'loop-apply-schedule{verify=true}' | filecheck %s

// CHECK-LABEL: loop.func @split
// CHECK:       loop.for %o = 0 to 3 {
// CHECK-NEXT:    loop.for %i = 0 to 16 {
// CHECK-NEXT:      loop.block "b" (%{{.*}} : 40 = %o * 16 + %i) where (-%o * 16 - %i + 39) {
loop.func @split(%x: memref<40xf32>, %y: memref<40xf32>) attributes {outputs = 1 : i64} {
  loop.for %j = 0 to 40 {
    loop.block "b" (%v : 40 = %j) {
      %a = loop.load %x[%v] : f32
      loop.store %a, %y[%v] : f32
    }
  }
}
sched.schedule @split {
  %b = sched.block "b" : !sched.block
  %j = sched.loops %b : 1
  %t = sched.knob "t" [8, 16] default 16
  %o, %i = sched.split %j [?, %t]
}

// A split that divides needs no predicate; loops without named handles are called after their loop.
// CHECK-LABEL: loop.func @split_in_three
// CHECK:       loop.for %j = 0 to 2 {
// CHECK-NEXT:    loop.for %j_1 = 0 to 5 {
// CHECK-NEXT:      loop.for %j_2 = 0 to 4 {
// CHECK-NEXT:        loop.block "b" (%{{.*}} : 40 = %j * 20 + %j_1 * 4 + %j_2) {
loop.func @split_in_three(%x: memref<40xf32>, %y: memref<40xf32>) attributes {outputs = 1 : i64} {
  loop.for %j = 0 to 40 {
    loop.block "b" (%v : 40 = %j) {
      %a = loop.load %x[%v] : f32
      loop.store %a, %y[%v] : f32
    }
  }
}
sched.schedule @split_in_three {
  %b = sched.block "b" : !sched.block
  %j = sched.loops %b : 1
  %0, %1, %2 = sched.split %j [2, ?, 4]
}

// CHECK-LABEL: loop.func @tile
// CHECK:       loop.for %io = 0 to 2 {
// CHECK-NEXT:    loop.for %jo = 0 to 3 {
// CHECK-NEXT:      loop.for %ii = 0 to 4 {
// CHECK-NEXT:        loop.for %ji = 0 to 2 {
// CHECK-NEXT:          loop.block "b" (%{{.*}} : 8 = %io * 4 + %ii, %{{.*}} : 6 = %jo * 2 + %ji) {
loop.func @tile(%x: memref<8x6xf32>, %y: memref<8x6xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 6 {
      loop.block "b" (%v : 8 = %i, %w : 6 = %j) {
        %a = loop.load %x[%v, %w] : f32
        loop.store %a, %y[%v, %w] : f32
      }
    }
  }
}
sched.schedule @tile {
  %b = sched.block "b" : !sched.block
  %i, %j = sched.loops %b : 2
  %io, %jo, %ii, %ji = sched.tile %i, %j [4, 2]
}

// CHECK-LABEL: loop.func @fuse
// CHECK:       loop.for %f = 0 to 48 {
// CHECK-NEXT:    loop.block "b" (%{{.*}} : 8 = %f floordiv 6, %{{.*}} : 6 = (%f mod 6)) {
loop.func @fuse(%x: memref<8x6xf32>, %y: memref<8x6xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 6 {
      loop.block "b" (%v : 8 = %i, %w : 6 = %j) {
        %a = loop.load %x[%v, %w] : f32
        loop.store %a, %y[%v, %w] : f32
      }
    }
  }
}
sched.schedule @fuse {
  %b = sched.block "b" : !sched.block
  %i, %j = sched.loops %b : 2
  %f = sched.fuse %i, %j
}

// Splitting and fusing again leaves nothing behind.
// CHECK-LABEL: loop.func @fuse_of_split
// CHECK:       loop.for %f = 0 to 40 {
// CHECK-NEXT:    loop.block "b" (%{{.*}} : 40 = %f) {
loop.func @fuse_of_split(%x: memref<40xf32>, %y: memref<40xf32>) attributes {outputs = 1 : i64} {
  loop.for %j = 0 to 40 {
    loop.block "b" (%v : 40 = %j) {
      %a = loop.load %x[%v] : f32
      loop.store %a, %y[%v] : f32
    }
  }
}
sched.schedule @fuse_of_split {
  %b = sched.block "b" : !sched.block
  %j = sched.loops %b : 1
  %o, %i = sched.split %j [?, 8]
  %f = sched.fuse %o, %i
}

// The listed loops change places; %j between them stays where it is. Handles stay good.
// CHECK-LABEL: loop.func @reorder
// CHECK:       loop.for %k = 0 to 4 unrolled {
// CHECK-NEXT:    loop.for %j = 0 to 6 {
// CHECK-NEXT:      loop.for %i = 0 to 8 {
loop.func @reorder(%x: memref<8x6x4xf32>, %y: memref<8x6x4xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 6 {
      loop.for %k = 0 to 4 {
        loop.block "b" (%v : 8 = %i, %w : 6 = %j, %u : 4 = %k) {
          %a = loop.load %x[%v, %w, %u] : f32
          loop.store %a, %y[%v, %w, %u] : f32
        }
      }
    }
  }
}
sched.schedule @reorder {
  %b = sched.block "b" : !sched.block
  %i, %j, %k = sched.loops %b : 3
  sched.reorder %k, %i
  sched.unroll %k
}

// The predicate of a ragged split holds throughout the main part.
// CHECK-LABEL: loop.func @peel
// CHECK:       loop.for %m = 0 to 2 {
// CHECK-NEXT:    loop.for %i = 0 to 16 {
// CHECK-NEXT:      loop.block "b" (%{{.*}} : 40 = %i + %m * 16) {
// CHECK:       loop.for %r = 0 to 1 {
// CHECK-NEXT:    loop.for %[[I:.*]] = 0 to 16 {
// CHECK-NEXT:      loop.block "b_rest" (%{{.*}} : 40 = %r * 16 + %[[I]] + 32) where (-%r * 16 - %[[I]] + 7) {
loop.func @peel(%x: memref<40xf32>, %y: memref<40xf32>) attributes {outputs = 1 : i64} {
  loop.for %j = 0 to 40 {
    loop.block "b" (%v : 40 = %j) {
      %a = loop.load %x[%v] : f32
      loop.store %a, %y[%v] : f32
    }
  }
}
sched.schedule @peel {
  %b = sched.block "b" : !sched.block
  %j = sched.loops %b : 1
  %o, %i = sched.split %j [?, 16]
  %m, %r = sched.peel %o by 1
}

// CHECK-LABEL: loop.func @kinds
// CHECK:       loop.for %i = 0 to 8 parallel {
// CHECK-NEXT:    loop.for %j = 0 to 6 unrolled {
// CHECK-NEXT:      loop.for %k = 0 to 4 vectorized {
// CHECK-NEXT:        loop.for %l = 0 to 16 vectorized {
// CHECK:       } attributes {prefetch = 2 : i64}
loop.func @kinds(%x: memref<8x6x4x16xf32>, %y: memref<8x6x4x16xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 6 {
      loop.for %k = 0 to 4 {
        loop.for %l = 0 to 16 {
          loop.block "b" (%v : 8 = %i, %w : 6 = %j, %u : 4 = %k, %t : 16 = %l) {
            %a = loop.load %x[%v, %w, %u, %t] : f32
            loop.store %a, %y[%v, %w, %u, %t] : f32
          }
        }
      }
    }
  }
}
sched.schedule @kinds {
  %b = sched.block "b" : !sched.block
  %i, %j, %k, %l = sched.loops %b : 4
  sched.parallel %i
  sched.unroll %j
  sched.vectorize %k, %l
  sched.pragma %i "prefetch" = 2
}

// CHECK-LABEL: loop.func @bind
// CHECK:       loop.for %i = 0 to 8 bind "blockIdx.x" {
loop.func @bind(%x: memref<8xf32>, %y: memref<8xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 8 {
    loop.block "b" (%v : 8 = %i) {
      %a = loop.load %x[%v] : f32
      loop.store %a, %y[%v] : f32
    }
  }
}
sched.schedule @bind {
  %b = sched.block "b" : !sched.block
  %i = sched.loops %b : 1
  sched.bind %i to "blockIdx.x"
}

// CHECK-LABEL: loop.func @child
// CHECK:       loop.for %i = 0 to 8 {
// CHECK-NEXT:    loop.for %j = 0 to 6 {
// CHECK:         loop.for %k = 0 to 6 unrolled {
loop.func @child(%x: memref<8x6xf32>, %y: memref<8x6xf32>, %z: memref<8x6xf32>) attributes {outputs = 2 : i64} {
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 6 {
      loop.block "b" (%v : 8 = %i, %w : 6 = %j) {
        %a = loop.load %x[%v, %w] : f32
        loop.store %a, %y[%v, %w] : f32
      }
    }
    loop.for %k = 0 to 6 {
      loop.block "c" (%v : 8 = %i, %w : 6 = %k) {
        %a = loop.load %x[%v, %w] : f32
        loop.store %a, %z[%v, %w] : f32
      }
    }
  }
}
sched.schedule @child {
  %b = sched.block "b" : !sched.block
  %i, %j = sched.loops %b : 2
  %k = sched.child %i at 1 : !sched.loop
  sched.unroll %k
}

// CHECK-LABEL: loop.func @tensorize
// CHECK:       loop.for %o = 0 to 2 {
// CHECK-NEXT:    loop.block "dot" (%{{.*}} : 4 = %i) reduce (%[[K:.*]] : 32 = %o * 16) {
// CHECK-NEXT:      %[[A:.*]] = loop.load %x[%{{.*}}, d0 + %[[K]]] tile (d0 : 16) : vector<16xf32>
// CHECK-NEXT:      %[[B:.*]] = loop.load %w[d0 + %[[K]]] tile (d0 : 16) : vector<16xf32>
// CHECK-NEXT:      %[[C:.*]] = loop.load %y[%{{.*}}] tile (d0 : 16) : vector<1xf32>
// CHECK-NEXT:      %[[P:.*]] = arith.mulf %[[A]], %[[B]] : vector<16xf32>
// CHECK-NEXT:      %[[S:.*]] = loop.reduce sum %[[P]] axes [0] : vector<16xf32> to vector<1xf32>
// CHECK-NEXT:      %[[T:.*]] = arith.addf %[[C]], %[[S]] : vector<1xf32>
// CHECK-NEXT:      loop.store %[[T]], %y[%{{.*}}] tile (d0 : 16) : vector<1xf32>
loop.func @tensorize(%x: memref<4x32xf32>, %w: memref<32xf32>, %y: memref<4xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 4 {
    loop.for %k = 0 to 32 {
      loop.block "dot" (%v : 4 = %i) reduce (%r : 32 = %k) init {
      ^bb0(%v : index, %r : index):
        %z = arith.constant 0.0 : f32
        loop.store %z, %y[%v] : f32
      } {
        %a = loop.load %x[%v, %r] : f32
        %b = loop.load %w[%r] : f32
        %c = loop.load %y[%v] : f32
        %d = loop.fma %a, %b, %c : f32, f32, f32
        loop.store %d, %y[%v] : f32
      }
    }
  }
}
sched.schedule @tensorize {
  %c = sched.block "dot" : !sched.block
  %i, %k = sched.loops %c : 2
  %o, %l = sched.split %k [?, 16]
  %init, %update = sched.decompose_reduction %c at %o
  sched.tensorize %l "dot_accumulate"
}
