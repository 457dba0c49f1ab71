// RUN: mlc-opt %s --load %S/Inputs/mine_compiler.py -p 'graph-annotate{compiler=mine},graph-merge-regions,graph-partition' | filecheck %s
// RUN: mlc-opt %s --load %S/Inputs/mine_compiler.py -p 'graph-annotate{compiler=mine},graph-merge-regions,graph-partition,graph-O3,convert-graph-to-te' | filecheck %s --check-prefix=LATER

// Weights stand in the function; equal regions share it; the fusion and the lowering leave it alone.
// CHECK-LABEL: func.func @main
// CHECK:         [[A:%\d+]] = graph.call @mine_[[NAME:\w+]](%x)
// CHECK-NEXT:    [[B:%\d+]] = graph.softmax [[A]]
// CHECK-NEXT:    [[C:%\d+]] = graph.call @mine_[[NAME]]([[B]])
// CHECK-NEXT:    return [[C]]
// CHECK:       func.func private @mine_[[NAME]](%a0: tensor<2x4xf32>) -> tensor<2x4xf32> attributes {graph.kernel, compiler = "mine"}
// CHECK-NEXT:    graph.param "w"
// CHECK-NEXT:    graph.dense {{.*}}offload.match = 0 : i64
// CHECK-NEXT:    graph.relu
// CHECK-NOT:   func.func private
// LATER:       func.func private @mine_{{.*}} compiler = "mine"}
// LATER-NEXT:    graph.param "w"
// LATER-NEXT:    graph.dense
// LATER-NEXT:    graph.relu
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %w = graph.param "w" : tensor<4x4xf32>
  %0 = graph.dense %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = graph.relu %0 : tensor<2x4xf32>
  %2 = graph.softmax %1 : tensor<2x4xf32>
  %3 = graph.dense %2, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %4 = graph.relu %3 : tensor<2x4xf32>
  return %4 : tensor<2x4xf32>
}
