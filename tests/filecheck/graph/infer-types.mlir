// RUN: mlc-opt %s --disable-verify -p graph-infer-types --split-input-file --verify-diagnostics | filecheck %s

// The arguments were edited: the batch is 3 now.
// CHECK-LABEL: func.func @batch(%x: tensor<3x4x2xf32>) -> tensor<3x8xf32>
// CHECK-NEXT:    graph.relu %x : tensor<3x4x2xf32>
// CHECK-NEXT:    graph.reshape {{.*}} : (tensor<3x4x2xf32>) -> tensor<3x8xf32>
// CHECK-NEXT:    graph.fused "exp" (%{{.*}} = %{{.*}} : tensor<3x8xf32>) -> tensor<3x8xf32>
func.func @batch(%x: tensor<3x4x2xf32>) -> tensor<1x8xf32> {
  %0 = graph.relu %x : (tensor<3x4x2xf32>) -> tensor<1x4x2xf32>
  %1 = graph.reshape %0 : (tensor<1x4x2xf32>) -> tensor<1x8xf32>
  %2 = graph.fused "exp" (%a = %1 : tensor<1x8xf32>) -> tensor<1x8xf32> {
    %3 = graph.exp %a : tensor<1x8xf32>
    graph.yield %3 : tensor<1x8xf32>
  }
  return %2 : tensor<1x8xf32>
}

// -----

func.func @mismatch(%x: tensor<3x4xf32>, %y: tensor<2x4xf32>) -> tensor<1x4xf32> {
  // expected-error @+1 {{expected shapes that broadcast together, but got 3x4 and 2x4}}
  %0 = graph.add %x, %y : (tensor<3x4xf32>, tensor<2x4xf32>) -> tensor<1x4xf32>
  return %0 : tensor<1x4xf32>
}
