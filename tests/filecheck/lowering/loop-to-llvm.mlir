// RUN: mlc-opt %s -p convert-loop-to-llvm | filecheck %s
// RUN: mlc-opt %s -p 'convert-loop-to-llvm{vector-bits=256}' | filecheck %s --check-prefix=AVX2

// A tile is split into native vectors, which the loop carries; a column is loaded as scalars and splat.
// CHECK-LABEL: llvm.func @micro_kernel
// CHECK:         ^{{.*}}(%{{.*}}: i64, %{{.*}}: vector<16xf32>, %{{.*}}: vector<16xf32>):
// CHECK:           %[[A:.*]] = llvm.load {{.*}} -> f32
// CHECK:           llvm_ext.splat %[[A]] : vector<16xf32>
// CHECK:           llvm.intr.fma
// CHECK-NOT:       llvm.intr.fma
// CHECK:           llvm.load {{.*}} -> f32
// CHECK:           llvm.intr.fma
// CHECK:         llvm.return
// AVX2-LABEL:  llvm.func @micro_kernel
// AVX2:          ^{{.*}}(%{{.*}}: i64, %{{.*}}: vector<8xf32>, %{{.*}}: vector<8xf32>, %{{.*}}: vector<8xf32>, %{{.*}}: vector<8xf32>):
loop.func @micro_kernel(%A: memref<2x8xf32>, %B: memref<8x16xf32>, %C: memref<2x16xf32>) attributes {outputs = 1 : i64} {
  %0 = arith.constant 0.0 : f32
  %z = loop.broadcast %0 : f32 to vector<2x16xf32>
  %r = loop.for %k = 0 to 8 iter_args(%c = %z) -> vector<2x16xf32> {
    %a = loop.load %A[d0, %k] tile (d0 : 2, d1 : 16) : vector<2x1xf32>
    %b = loop.load %B[%k, d1] tile (d0 : 2, d1 : 16) : vector<1x16xf32>
    %n = loop.fma %a, %b, %c : vector<2x1xf32>, vector<1x16xf32>, vector<2x16xf32>
    loop.yield %n : vector<2x16xf32>
  }
  loop.store %r, %C[d0, d1] tile (d0 : 2, d1 : 16) : vector<2x16xf32>
}

// Lanes off a ragged tile are neither loaded nor stored.
// CHECK-LABEL: llvm.func @ragged
// CHECK-DAG:     dense<[true, true, true, false]> : vector<4xi1>
// CHECK-DAG:     llvm.load {{.*}} -> vector<16xf32>
// CHECK-DAG:     llvm_ext.masked_load {{.*}}vector<4xf32>
// CHECK:         llvm.store
// CHECK:         llvm_ext.masked_store
loop.func @ragged(%X: memref<19xf32>, %Y: memref<19xf32>) attributes {outputs = 1 : i64} {
  %x = loop.load %X[d0] tile (d0 : 19) : vector<19xf32>
  loop.store %x, %Y[d0] tile (d0 : 19) : vector<19xf32>
}

// The body of a parallel loop is a function for the pool; its scratch starts at the thread's own place.
// CHECK-LABEL: llvm.func internal @threads.parallel0
// CHECK-LABEL: llvm.func @threads({{.*}}mlc.scratch_bytes = 128 : i64
// CHECK:         llvm.mlir.addressof @threads.parallel0
// CHECK:         llvm.call %{{.*}}
loop.func @threads(%X: memref<4x8xf32>, %Y: memref<4x8xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 4 parallel {
    %t = loop.alloc "local" : memref<1xf32>
    %x = loop.load %X[%i, 0] : f32
    loop.store %x, %t[0] : f32
    %y = loop.load %t[0] : f32
    loop.store %y, %Y[%i, 0] : f32
  }
}

// Parallel loops of which one is all that the other holds have a task for each point: row and column come of its number.
// CHECK-LABEL: llvm.func internal @nest.parallel0
// CHECK:         llvm.urem %[[TASK:.*]], %[[COLUMNS:[0-9a-z_]+]] : i64
// CHECK-NEXT:    llvm.udiv %[[TASK]], %[[COLUMNS]] : i64
// CHECK-LABEL: llvm.func @nest
// CHECK:         llvm.mul
// CHECK:         llvm.mlir.addressof @nest.parallel0
loop.func @nest(%X: memref<?x?xf32>, %Y: memref<?x?xf32>, %N: index, %M: index)
    attributes {outputs = 1 : i64, sizes = [#te.map<"%0, %1">, #te.map<"%0, %1">]} {
  loop.for %i = 0 to %N parallel {
    loop.for %j = 0 to %M parallel {
      %x = loop.load %X[%i, %j] : f32
      loop.store %x, %Y[%i, %j] : f32
    }
  }
}
