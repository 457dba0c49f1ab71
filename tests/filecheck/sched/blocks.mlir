// RUN: mlc-opt %s -p 'loop-apply-schedule{verify=true}' | filecheck %s

// Three results need seven elements of the padded row; the last block of rows reaches beyond it.
// CHECK-LABEL: loop.func @compute_at
// CHECK:       %p = loop.alloc "local" : memref<18xf32>
// CHECK-NEXT:  loop.for %ho = 0 to 3 {
// CHECK-NEXT:    loop.for %i = 0 to 7 vectorized {
// CHECK-NEXT:      loop.block "pad" (%{{.*}} : 18 = %ho * 6 + %i) where (-%ho * 6 - %i + 17) {
// CHECK:         loop.for %hi = 0 to 3 {
// CHECK-NEXT:      loop.for %k = 0 to 3 {
// CHECK-NEXT:        loop.block "conv"
loop.func @compute_at(%x: memref<16xf32>, %y: memref<8xf32>) attributes {outputs = 1 : i64} {
  %p = loop.alloc "shared" : memref<18xf32>
  loop.for %i = 0 to 18 {
    loop.block "pad" (%v : 18 = %i) {
      %z = arith.constant 0.0 : f32
      %a = loop.load %x[%v - 1] mask (%v - 1, 16 - %v) else %z : f32
      loop.store %a, %p[%v] : f32
    }
  }
  loop.for %h = 0 to 8 {
    loop.for %k = 0 to 3 {
      loop.block "conv" (%v : 8 = %h) reduce (%r : 3 = %k) init {
      ^bb0(%v : index, %r : index):
        %z = arith.constant 0.0 : f32
        loop.store %z, %y[%v] : f32
      } {
        %a = loop.load %p[%v * 2 + %r] : f32
        %b = loop.load %y[%v] : f32
        %e = arith.addf %a, %b : f32
        loop.store %e, %y[%v] : f32
      }
    }
  }
}
sched.schedule @compute_at {
  %p = sched.block "pad" : !sched.block
  %c = sched.block "conv" : !sched.block
  %h, %k = sched.loops %c : 2
  %ho, %hi = sched.split %h [?, 3]
  sched.compute_at %p at %ho
  %i = sched.loops %p under %ho : 1
  sched.vectorize %i
  sched.set_scope %p "local"
}

// CHECK-LABEL: loop.func @reverse_compute_at
// CHECK:       loop.for %i = 0 to 4 {
// CHECK-NEXT:    loop.for %jo = 0 to 3 {
// CHECK-NEXT:      loop.for %k = 0 to 8 {
// CHECK-NEXT:        loop.for %ji = 0 to 16 {
// CHECK-NEXT:          loop.block "dense"
// CHECK:           loop.for %{{.*}} = 0 to 1 {
// CHECK-NEXT:        loop.for %[[J:.*]] = 0 to 16 vectorized {
// CHECK-NEXT:          loop.block "relu" (%{{.*}} : 4 = %i, %{{.*}} : 40 = %jo * 16 + %[[J]]) where (-%jo * 16 - %[[J]] + 39) {
loop.func @reverse_compute_at(%x: memref<4x8xf32>, %m: memref<8x40xf32>, %y: memref<4x40xf32>) attributes {outputs = 1 : i64} {
  %c = loop.alloc "shared" : memref<4x40xf32>
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 40 {
      loop.for %k = 0 to 8 {
        loop.block "dense" (%v : 4 = %i, %w : 40 = %j) reduce (%r : 8 = %k) init {
        ^bb0(%v : index, %w : index, %r : index):
          %z = arith.constant 0.0 : f32
          loop.store %z, %c[%v, %w] : f32
        } {
          %a = loop.load %x[%v, %r] : f32
          %b = loop.load %m[%r, %w] : f32
          %d = loop.load %c[%v, %w] : f32
          %e = loop.fma %a, %b, %d : f32, f32, f32
          loop.store %e, %c[%v, %w] : f32
        }
      }
    }
  }
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 40 {
      loop.block "relu" (%v : 4 = %i, %w : 40 = %j) {
        %a = loop.load %c[%v, %w] : f32
        %z = arith.constant 0.0 : f32
        %e = arith.maximumf %a, %z : f32
        loop.store %e, %y[%v, %w] : f32
      }
    }
  }
}
sched.schedule @reverse_compute_at {
  %c = sched.block "dense" : !sched.block
  %r = sched.block "relu" : !sched.block
  %i, %j, %k = sched.loops %c : 3
  %jo, %ji = sched.split %j [?, 16]
  sched.reorder %i, %jo, %k, %ji
  sched.reverse_compute_at %r at %jo
  %ri, %rj = sched.loops %r under %jo : 2
  sched.vectorize %rj
}

// CHECK-LABEL: loop.func @decompose_reduction
// CHECK:       loop.for %i = 0 to 4 {
// CHECK-NEXT:    loop.for %jo = 0 to 3 {
// CHECK-NEXT:      loop.for %ji_init = 0 to 16 vectorized {
// CHECK-NEXT:        loop.block "dense_init" (%[[V:.*]] : 4 = %i, %[[W:.*]] : 40 = %jo * 16 + %ji_init) where (-%jo * 16 - %ji_init + 39) {
// CHECK-NEXT:          %[[Z:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:          loop.store %[[Z]], %c[%[[V]], %[[W]]] : f32
// CHECK:           loop.for %k = 0 to 8 {
// CHECK-NEXT:        loop.for %ji = 0 to 16 vectorized {
// CHECK-NEXT:          loop.block "dense" ({{.*}}) reduce ({{.*}}) where (-%jo * 16 - %ji + 39) {
// CHECK-NEXT:            %{{.*}} = loop.load %x
loop.func @decompose_reduction(%x: memref<4x8xf32>, %m: memref<8x40xf32>, %y: memref<4x40xf32>) attributes {outputs = 1 : i64} {
  %c = loop.alloc "shared" : memref<4x40xf32>
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 40 {
      loop.for %k = 0 to 8 {
        loop.block "dense" (%v : 4 = %i, %w : 40 = %j) reduce (%r : 8 = %k) init {
        ^bb0(%v : index, %w : index, %r : index):
          %z = arith.constant 0.0 : f32
          loop.store %z, %c[%v, %w] : f32
        } {
          %a = loop.load %x[%v, %r] : f32
          %b = loop.load %m[%r, %w] : f32
          %d = loop.load %c[%v, %w] : f32
          %e = loop.fma %a, %b, %d : f32, f32, f32
          loop.store %e, %c[%v, %w] : f32
        }
      }
    }
  }
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 40 {
      loop.block "relu" (%v : 4 = %i, %w : 40 = %j) {
        %a = loop.load %c[%v, %w] : f32
        %z = arith.constant 0.0 : f32
        %e = arith.maximumf %a, %z : f32
        loop.store %e, %y[%v, %w] : f32
      }
    }
  }
}
sched.schedule @decompose_reduction {
  %c = sched.block "dense" : !sched.block
  %i, %j, %k = sched.loops %c : 3
  %jo, %ji = sched.split %j [?, 16]
  sched.reorder %i, %jo, %k, %ji
  %init, %update = sched.decompose_reduction %c at %k
  %0, %1, %2 = sched.loops %init : 3
  sched.vectorize %2
  sched.vectorize %ji
}

// CHECK-LABEL: loop.func @rfactor
// CHECK:       %c_rf = loop.alloc "shared" : memref<4x4x40xf32>
// CHECK:       loop.for %ko = 0 to 2 {
// CHECK-NEXT:    loop.for %ki = 0 to 4 parallel {
// CHECK-NEXT:      loop.block "dense_rf" (%{{.*}} : 4 = %i, %{{.*}} : 40 = %j, %[[S:.*]] : 4 = %ki) reduce (%[[R:.*]] : 2 = %ko) init {
// CHECK:             loop.load %x[%{{.*}}, %[[S]] + %[[R]] * 4] : f32
// CHECK:             loop.store %{{.*}}, %c_rf[%[[S]], %{{.*}}, %{{.*}}] : f32
// CHECK:       loop.block "dense" (%[[V:.*]] : 4 = %{{.*}}, %[[W:.*]] : 40 = %{{.*}}) reduce (%[[K:.*]] : 4 = %{{.*}}) init {
// CHECK:         %[[A:.*]] = loop.load %c[%[[V]], %[[W]]] : f32
// CHECK-NEXT:    %[[B:.*]] = loop.load %c_rf[%[[K]], %[[V]], %[[W]]] : f32
// CHECK-NEXT:    %{{.*}} = arith.addf %[[A]], %[[B]] : f32
loop.func @rfactor(%x: memref<4x8xf32>, %m: memref<8x40xf32>, %y: memref<4x40xf32>) attributes {outputs = 1 : i64} {
  %c = loop.alloc "shared" : memref<4x40xf32>
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 40 {
      loop.for %k = 0 to 8 {
        loop.block "dense" (%v : 4 = %i, %w : 40 = %j) reduce (%r : 8 = %k) init {
        ^bb0(%v : index, %w : index, %r : index):
          %z = arith.constant 0.0 : f32
          loop.store %z, %c[%v, %w] : f32
        } {
          %a = loop.load %x[%v, %r] : f32
          %b = loop.load %m[%r, %w] : f32
          %d = loop.load %c[%v, %w] : f32
          %e = loop.fma %a, %b, %d : f32, f32, f32
          loop.store %e, %c[%v, %w] : f32
        }
      }
    }
  }
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 40 {
      loop.block "relu" (%v : 4 = %i, %w : 40 = %j) {
        %a = loop.load %c[%v, %w] : f32
        %z = arith.constant 0.0 : f32
        %e = arith.maximumf %a, %z : f32
        loop.store %e, %y[%v, %w] : f32
      }
    }
  }
}
sched.schedule @rfactor {
  %c = sched.block "dense" : !sched.block
  %i, %j, %k = sched.loops %c : 3
  %ko, %ki = sched.split %k [?, 4]
  %rf = sched.rfactor %ki axis 0
  sched.parallel %ki
}

// CHECK-LABEL: loop.func @compute_inline
// CHECK-NOT:   loop.alloc
// CHECK:       loop.block "transpose" (%[[V:.*]] : 8 = %i, %[[W:.*]] : 3 = %j) {
// CHECK-NEXT:    %[[A:.*]] = loop.load %x[%[[W]] + 1, %[[V]]] : f32
// CHECK-NEXT:    %[[B:.*]] = math.exp %[[A]] : f32
// CHECK-NEXT:    loop.store %[[B]], %y[%[[V]], %[[W]]] : f32
loop.func @compute_inline(%x: memref<4x8xf32>, %y: memref<8x3xf32>) attributes {outputs = 1 : i64} {
  %e = loop.alloc "shared" : memref<4x8xf32>
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 8 {
      loop.block "exp" (%v : 4 = %i, %w : 8 = %j) {
        %a = loop.load %x[%v, %w] : f32
        %b = math.exp %a : f32
        loop.store %b, %e[%v, %w] : f32
      }
    }
  }
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 3 {
      loop.block "transpose" (%v : 8 = %i, %w : 3 = %j) {
        %a = loop.load %e[%w + 1, %v] : f32
        loop.store %a, %y[%v, %w] : f32
      }
    }
  }
}
sched.schedule @compute_inline {
  %e = sched.block "exp" : !sched.block
  sched.compute_inline %e
}

// Packing: the copy is laid out anew and made where it is used.
// CHECK-LABEL: loop.func @cache_read
// CHECK:       %e_local = loop.alloc "local" : memref<8x2x2xf32>
// CHECK:       loop.for %i_1 = 0 to 8 {
// CHECK-NEXT:    loop.for %a0 = 0 to 4 {
// CHECK-NEXT:      loop.for %a1 = 0 to 1 {
// CHECK-NEXT:        loop.block "e_local" (%[[V:.*]] : 4 = %a0, %[[W:.*]] : 8 = %i_1) {
// CHECK-NEXT:          %[[A:.*]] = loop.load %e[%[[V]], %[[W]]] : f32
// CHECK-NEXT:          loop.store %[[A]], %e_local[%[[W]], %[[V]] floordiv 2, (%[[V]] mod 2)] : f32
// CHECK:       loop.block "transpose"
// CHECK-NEXT:    %{{.*}} = loop.load %e_local[
loop.func @cache_read(%x: memref<4x8xf32>, %y: memref<8x3xf32>) attributes {outputs = 1 : i64} {
  %e = loop.alloc "shared" : memref<4x8xf32>
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 8 {
      loop.block "exp" (%v : 4 = %i, %w : 8 = %j) {
        %a = loop.load %x[%v, %w] : f32
        %b = math.exp %a : f32
        loop.store %b, %e[%v, %w] : f32
      }
    }
  }
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 3 {
      loop.block "transpose" (%v : 8 = %i, %w : 3 = %j) {
        %a = loop.load %e[%w + 1, %v] : f32
        loop.store %a, %y[%v, %w] : f32
      }
    }
  }
}
sched.schedule @cache_read {
  %t = sched.block "transpose" : !sched.block
  %r = sched.cache_read %t[0] "local"
  sched.transform_layout %r [d1, d0 floordiv 2, d0 mod 2]
  %i, %j = sched.loops %t : 2
  sched.compute_at %r at %i
}

// A panel of bytes is widened once: the copy has the elements to which the block casts.
// CHECK-LABEL: loop.func @cache_read_as
// CHECK:       %w_local = loop.alloc "local" : memref<4x8xf32>
// CHECK:       loop.for %j = 0 to 4 {
// CHECK:           loop.block "w_local" (%[[V:.*]] : 4 = %{{.*}}, %[[K:.*]] : 8 = %{{.*}}) {
// CHECK-NEXT:        %[[A:.*]] = loop.load %w[%[[V]], %[[K]]] : i8
// CHECK-NEXT:        %[[B:.*]] = loop.cast extsi %[[A]] : i8 to i32
// CHECK-NEXT:        %[[C:.*]] = loop.cast sitofp %[[B]] : i32 to f32
// CHECK-NEXT:        loop.store %[[C]], %w_local[%[[V]], %[[K]]] : f32
// CHECK:         loop.block "scaled"
// CHECK-NEXT:      %[[X:.*]] = loop.load %w_local[
// CHECK-NEXT:      %{{.*}} = arith.mulf %[[X]], %[[X]] : f32
loop.func @cache_read_as(%w: memref<4x8xi8>, %y: memref<4x3x8xf32>) attributes {outputs = 1 : i64} {
  loop.for %j = 0 to 4 {
    loop.for %i = 0 to 3 {
      loop.for %k = 0 to 8 {
        loop.block "scaled" (%v : 4 = %j, %r : 3 = %i, %u : 8 = %k) {
          %a = loop.load %w[%v, %u] : i8
          %b = loop.cast extsi %a : i8 to i32
          %c = loop.cast sitofp %b : i32 to f32
          %d = arith.mulf %c, %c : f32
          loop.store %d, %y[%v, %r, %u] : f32
        }
      }
    }
  }
}
sched.schedule @cache_read_as {
  %c = sched.block "scaled" : !sched.block
  %j, %i, %k = sched.loops %c : 3
  %r = sched.cache_read %c[0] "local" as f32
  sched.compute_at %r at %j
}

// CHECK-LABEL: loop.func @cache_write
// CHECK:       %y_local = loop.alloc "local" : memref<8x3xf32>
// CHECK:       loop.for %i_1 = 0 to 8 {
// CHECK-NEXT:    loop.for %j_1 = 0 to 3 {
// CHECK-NEXT:      loop.block "transpose"
// CHECK:             loop.store %{{.*}}, %y_local[
// CHECK:         loop.for %a0 = 0 to 1 {
// CHECK-NEXT:      loop.for %a1 = 0 to 3 {
// CHECK-NEXT:        loop.block "y_local" (%[[V:.*]] : 8 = %i_1, %[[W:.*]] : 3 = %a1) {
// CHECK-NEXT:          %[[A:.*]] = loop.load %y_local[%[[V]], %[[W]]] : f32
// CHECK-NEXT:          loop.store %[[A]], %y[%[[V]], %[[W]]] : f32
loop.func @cache_write(%x: memref<4x8xf32>, %y: memref<8x3xf32>) attributes {outputs = 1 : i64} {
  %e = loop.alloc "shared" : memref<4x8xf32>
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 8 {
      loop.block "exp" (%v : 4 = %i, %w : 8 = %j) {
        %a = loop.load %x[%v, %w] : f32
        %b = math.exp %a : f32
        loop.store %b, %e[%v, %w] : f32
      }
    }
  }
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 3 {
      loop.block "transpose" (%v : 8 = %i, %w : 3 = %j) {
        %a = loop.load %e[%w + 1, %v] : f32
        loop.store %a, %y[%v, %w] : f32
      }
    }
  }
}
sched.schedule @cache_write {
  %t = sched.block "transpose" : !sched.block
  %w = sched.cache_write %t "local"
  %i, %j = sched.loops %t : 2
  sched.reverse_compute_at %w at %i
}

// CHECK-LABEL: loop.func @storage
// CHECK:       %e = loop.alloc "global" {storage_align = array<i64: 0, 16, 4>} : memref<4x20xf32>
loop.func @storage(%x: memref<4x8xf32>, %y: memref<8x3xf32>) attributes {outputs = 1 : i64} {
  %e = loop.alloc "shared" : memref<4x8xf32>
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 8 {
      loop.block "exp" (%v : 4 = %i, %w : 8 = %j) {
        %a = loop.load %x[%v, %w] : f32
        %b = math.exp %a : f32
        loop.store %b, %e[%v, %w] : f32
      }
    }
  }
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 3 {
      loop.block "transpose" (%v : 8 = %i, %w : 3 = %j) {
        %a = loop.load %e[%w + 1, %v] : f32
        loop.store %a, %y[%v, %w] : f32
      }
    }
  }
}
sched.schedule @storage {
  %e = sched.block "exp" : !sched.block
  sched.set_scope %e "global"
  sched.storage_align %e axis 0 factor 16 offset 4
}
