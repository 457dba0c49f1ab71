// RUN: mlc-opt %s --load %S/Inputs/mine_compiler.py -p 'graph-annotate{compiler=mine},graph-merge-regions' | filecheck %s
// RUN: mlc-opt %s --load %S/Inputs/mine_compiler.py -p 'graph-annotate{compiler=alone},graph-merge-regions' | filecheck %s --check-prefix=ALONE

// The classic diamond: the sum reads the first exponential through a softmax, which is not in the region. As one region
// they would wait for the softmax, which waits for them.
// CHECK-LABEL: func.func @diamond
// CHECK:         graph.exp {{.*}}offload.region = [[FIRST:\d+]] : i64
// CHECK-NEXT:    graph.softmax
// CHECK-NEXT:    graph.exp {{.*}}offload.region = [[FIRST]] : i64
// CHECK-NEXT:    graph.add
// CHECK-NOT:     offload.region = [[FIRST]] : i64
// CHECK:         return
func.func @diamond(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = graph.exp %x : tensor<2x4xf32>
  %1 = graph.softmax %0 : tensor<2x4xf32>
  %2 = graph.exp %0 : tensor<2x4xf32>
  %3 = graph.add %1, %2 : tensor<2x4xf32>
  return %3 : tensor<2x4xf32>
}

// Without the detour, all is one region; a compiler that does not merge keeps its matches apart.
// CHECK-LABEL: func.func @whole
// CHECK:         graph.exp {{.*}}offload.region = [[WHOLE:\d+]] : i64
// CHECK-NEXT:    graph.exp {{.*}}offload.region = [[WHOLE]] : i64
// CHECK-NEXT:    graph.add {{.*}}offload.region = [[WHOLE]] : i64
// ALONE-LABEL: func.func @whole
// ALONE:         graph.exp {{.*}}offload.region = [[A:\d+]] : i64
// ALONE-NEXT:    graph.exp
// ALONE-NOT:     offload.region = [[A]] : i64
// ALONE:         return
func.func @whole(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = graph.exp %x : tensor<2x4xf32>
  %1 = graph.exp %0 : tensor<2x4xf32>
  %2 = graph.add %0, %1 : tensor<2x4xf32>
  return %2 : tensor<2x4xf32>
}
