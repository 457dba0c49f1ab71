// RUN: mlc-opt %s -p 'te-add-schedule{target=znver5 threads=2}' --split-input-file | filecheck %s
// RUN: mlc-opt %s -p 'te-add-schedule{target=znver5},convert-te-to-loop,loop-apply-schedule,loop-tiles' --split-input-file | filecheck %s --check-prefix=LOOP

// Both operands are large: columns for each thread, groups of columns whose depth block of B is packed and stays in L2.
// CHECK-LABEL: sched.schedule @large
// CHECK: %[[ROWS:.*]], %{{.*}} = sched.split %{{.*}} [?, 12]
// CHECK-NEXT: %[[TILES:.*]], %{{.*}} = sched.split %{{.*}} [?, 32]
// CHECK-NEXT: %[[PART:.*]], %[[REST:.*]] = sched.split %[[TILES]] [?, 32]
// CHECK-NEXT: %[[GROUP:.*]], %[[COLUMNS:.*]] = sched.split %[[REST]] [?, 4]
// CHECK-NEXT: %[[DEPTH:.*]], %[[K:.*]] = sched.split %{{.*}} [?, 1024]
// CHECK-NEXT: sched.reorder %[[PART]], %[[GROUP]], %[[DEPTH]], %[[ROWS]], %[[COLUMNS]], %[[K]]
// CHECK: %[[COPY:.*]] = sched.cache_read %{{.*}}[1] "local"
// CHECK-NEXT: sched.compute_at %[[COPY]] at %[[DEPTH]]
// CHECK: sched.transform_layout %[[COPY]] [d1 floordiv 32, d0, (d1 mod 32)]
// CHECK: sched.parallel %[[PART]]
// LOOP-LABEL: loop.func @large
// LOOP: loop.alloc "local" : memref<4x1024x32xf32>
// LOOP: loop.load %C
// LOOP-NEXT: loop.for %{{.*}} = 0 to 1024 iter_args
te.func @large(%A: tensor<2048x2048xf32>, %B: tensor<2048x2048xf32>) -> tensor<2048x2048xf32> {
  %C = te.compute "C" (%i : 2048, %j : 2048) reduce (%k : 2048) sum {
    %0 = te.read %A[%i, %k] : f32
    %1 = te.read %B[%k, %j] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<2048x2048xf32>
  te.return %C : tensor<2048x2048xf32>
}

// -----

// The lanes of B lie apart: squares of it are transposed into panels once.
// CHECK-LABEL: sched.schedule @transposed
// CHECK: sched.cache_read %{{.*}}[1] "local"
// CHECK: sched.transform_layout %{{.*}} [d0 floordiv 32, d1, (d0 mod 32)]
// LOOP-LABEL: loop.func @transposed
// LOOP: loop.load %B[d1 + %{{.*}} * 16, d0 + %{{.*}} * 16] tile (d0 : 16, d1 : 16) : vector<16x16xf32>
te.func @transposed(%A: tensor<64x48xf32>, %B: tensor<96x48xf32>) -> tensor<64x96xf32> {
  %C = te.compute "C" (%i : 64, %j : 96) reduce (%k : 48) sum {
    %0 = te.read %A[%i, %k] : f32
    %1 = te.read %B[%j, %k] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<64x96xf32>
  te.return %C : tensor<64x96xf32>
}
