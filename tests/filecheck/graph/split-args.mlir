// RUN: mlc-opt %s -p "graph-split-args{max-args=3}" | filecheck %s
// RUN: mlc-opt %s -p graph-split-args | filecheck %s --check-prefix=ALL
// RUN: mlc-opt %s -p "graph-split-args{max-args=2}" 2>&1 | filecheck %s --check-prefix=FEW; true

// FEW: expected max-args of at least 3 (two tensors and the result), or 0, but got 2

// CHECK-LABEL: func.func @four
// CHECK-NEXT:    %[[A:.*]] = graph.fused "concatenate" (%{{.*}} = %x : tensor<2xf32>, %{{.*}} = %y : tensor<3xf32>)
// CHECK:         %[[B:.*]] = graph.fused "concatenate" (%{{.*}} = %z : tensor<4xf32>, %{{.*}} = %w : tensor<5xf32>)
// CHECK:         graph.concatenate %[[A]], %[[B]] {axis = 0} : (tensor<5xf32>, tensor<9xf32>) -> tensor<14xf32>
// ALL-LABEL: func.func @four
// ALL-NEXT:    graph.concatenate %x, %y, %z, %w
func.func @four(%x: tensor<2xf32>, %y: tensor<3xf32>, %z: tensor<4xf32>, %w: tensor<5xf32>) -> tensor<14xf32> {
  %0 = graph.concatenate %x, %y, %z, %w {axis = 0} : (tensor<2xf32>, tensor<3xf32>, tensor<4xf32>, tensor<5xf32>) -> tensor<14xf32>
  return %0 : tensor<14xf32>
}

// CHECK-LABEL: func.func @two
// CHECK-NEXT:    graph.concatenate %x, %y
func.func @two(%x: tensor<2xf32>, %y: tensor<3xf32>) -> tensor<5xf32> {
  %0 = graph.concatenate %x, %y {axis = 0} : (tensor<2xf32>, tensor<3xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}
