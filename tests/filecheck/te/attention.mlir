// RUN: mlc-opt %s -p 'convert-graph-to-te,te-factor-reductions,te-inline,te-add-schedule{target=x86-64-v4 threads=2}' | filecheck %s
// RUN: mlc-opt %s -p 'convert-graph-to-te,te-factor-reductions,te-inline,te-add-schedule{target=x86-64-v4},convert-te-to-loop,loop-apply-schedule,loop-tiles' | filecheck %s --check-prefix=LOOP

// The second product gives the loop over blocks of queries; all else moves into it, the strip with the keys going down.
// CHECK:      sched.schedule @attention
// CHECK-SAME: strategy = "attention"
// CHECK:      sched.compute_at %exp
// CHECK:      sched.transform_layout %exp
// CHECK:      sched.compute_at %batch_matmul{{.*}} at
// CHECK:      sched.cache_read %batch_matmul
// CHECK:      sched.parallel

// One strip of 40 keys and a block of queries, in the thread's scratch.
// LOOP:      loop.func @attention
// LOOP-DAG:  loop.alloc "local" : memref<1x40x64xf32>
// LOOP:      loop.for
func.func @attention(%q: tensor<2x128x8xf32>, %k: tensor<2x8x40xf32>, %v: tensor<2x40x8xf32>) -> tensor<2x128x8xf32>
    attributes {graph.kernel} {
  %0 = graph.batch_matmul %q, %k : (tensor<2x128x8xf32>, tensor<2x8x40xf32>) -> tensor<2x128x40xf32>
  %1 = graph.softmax %0 : tensor<2x128x40xf32>
  %2 = graph.batch_matmul %1, %v : (tensor<2x128x40xf32>, tensor<2x40x8xf32>) -> tensor<2x128x8xf32>
  return %2 : tensor<2x128x8xf32>
}
