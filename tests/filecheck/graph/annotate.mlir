// RUN: mlc-opt %s --load %S/Inputs/mine_compiler.py -p 'graph-annotate{compiler=mine}' | filecheck %s
// RUN: mlc-opt %s --load %S/Inputs/mine_compiler.py -p graph-annotate | filecheck %s --check-prefix=NONE
// RUN: mlc-opt %s --load %S/Inputs/mine_compiler.py -p 'graph-annotate{compiler=mine}' 2>&1 | filecheck %s --check-prefix=WARNS
// RUN: mlc-opt %s --load %S/Inputs/mine_compiler.py -p 'graph-annotate{compiler=sized},graph-partition' | filecheck %s --check-prefix=SIZED
// RUN: not mlc-opt %s --load %S/Inputs/mine_compiler.py -p 'graph-annotate{compiler=mind}' 2>&1 | filecheck %s --check-prefix=UNKNOWN

// NONE-NOT: offload
// UNKNOWN: expected a registered compiler, but got 'mind'; did you mean 'mine'?

// WARNS: compiler 'mine' takes static sizes only: a match of open sizes stays with mlc, by pointwise
// SIZED: func.func private @sized_{{.*}}graph.dims<[n]>{{.*}}graph.symbols = {n = #graph.symbol<1 to 8>}

// The largest pattern is matched first, from the last op; what is read elsewhere too is no part of a larger match.
// CHECK-LABEL: func.func @largest
// CHECK:         graph.dense {{.*}} {offload.compiler = "mine", offload.pattern = "dense_relu", offload.match = 1 : i64}
// CHECK-NEXT:    graph.relu {{.*}} {offload.compiler = "mine", offload.pattern = "dense_relu", offload.match = 1 : i64}
// CHECK-NEXT:    graph.dense {{.*}} {offload.compiler = "mine", offload.pattern = "dense", offload.match = 0 : i64}
// CHECK-NEXT:    graph.relu %{{.*}} : tensor<2x4xf32>
func.func @largest(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %w = graph.param "w" : tensor<4x4xf32>
  %0 = graph.dense %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = graph.relu %0 : tensor<2x4xf32>
  %2 = graph.dense %1, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %3 = graph.relu %2 : tensor<2x4xf32>
  return %2, %3 : tensor<2x4xf32>, tensor<2x4xf32>
}

// A weight that is no constant, and a symbolic size, are left alone.
// CHECK-LABEL: func.func @refused
// CHECK-NOT:     offload
func.func @refused(%x: tensor<2x4xf32>, %w: tensor<4x4xf32>, %y: tensor<?xf32, #graph.dims<[n]>>) -> (tensor<2x4xf32>, tensor<?xf32, #graph.dims<[n]>>)
    attributes {graph.symbols = {n = #graph.symbol<1 to 8>}} {
  %0 = graph.dense %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = graph.exp %y : tensor<?xf32, #graph.dims<[n]>>
  return %0, %1 : tensor<2x4xf32>, tensor<?xf32, #graph.dims<[n]>>
}
