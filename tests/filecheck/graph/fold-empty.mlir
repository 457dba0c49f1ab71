// RUN: mlc-opt %s -p graph-fold-empty | filecheck %s

// CHECK-LABEL: func.func @makes_nothing
// CHECK-NEXT:    %[[F:.*]] = graph.full {value = 0.0} : tensor<0x4xf32>
// CHECK-NEXT:    return %[[F]]
func.func @makes_nothing(%x: tensor<0x4xf32>) -> tensor<0x4xf32> {
  %1 = graph.relu %x : tensor<0x4xf32>
  return %1 : tensor<0x4xf32>
}

// CHECK-LABEL: func.func @sums_of_nothing
// CHECK-NEXT:    %[[F:.*]] = graph.full {value = 0.0} : tensor<3x5xf32>
// CHECK-NEXT:    %[[B:.*]] = graph.bias_add %[[F]], %b
// CHECK-NEXT:    return %[[B]]
func.func @sums_of_nothing(%x: tensor<3x0xf32>, %w: tensor<5x0xf32>, %b: tensor<5xf32>) -> tensor<3x5xf32> {
  %1 = graph.dense %x, %w : (tensor<3x0xf32>, tensor<5x0xf32>) -> tensor<3x5xf32>
  %2 = graph.bias_add %1, %b : tensor<3x5xf32>
  return %2 : tensor<3x5xf32>
}

// CHECK-LABEL: func.func @product_of_nothing
// CHECK-NEXT:    graph.full {value = 1.0} : tensor<4xf32>
func.func @product_of_nothing(%x: tensor<0x4xf32>) -> tensor<4xf32> {
  %1 = graph.prod %x {axes = [0]} : (tensor<0x4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @empty_pieces
// CHECK-NEXT:    %[[C:.*]] = graph.concatenate %x, %x {axis = 1}
// CHECK-NEXT:    return %x, %[[C]]
func.func @empty_pieces(%e: tensor<3x0xf32>, %x: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x8xf32>) {
  %1 = graph.concatenate %e, %x {axis = 1} : (tensor<3x0xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %2 = graph.concatenate %x, %e, %x {axis = 1} : (tensor<3x4xf32>, tensor<3x0xf32>, tensor<3x4xf32>) -> tensor<3x8xf32>
  return %1, %2 : tensor<3x4xf32>, tensor<3x8xf32>
}

// CHECK-LABEL: func.func @no_updates
// CHECK-NEXT:    return %x
func.func @no_updates(%x: tensor<3x4xf32>, %i: tensor<0x4xi64>, %u: tensor<0x4xf32>) -> tensor<3x4xf32> {
  %1 = graph.scatter_elements %x, %i, %u {axis = 0} : (tensor<3x4xf32>, tensor<0x4xi64>, tensor<0x4xf32>) -> tensor<3x4xf32>
  return %1 : tensor<3x4xf32>
}

// CHECK-LABEL: func.func @others_stay
// CHECK-NEXT:    graph.relu
func.func @others_stay(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  %1 = graph.relu %x : tensor<1x4xf32>
  return %1 : tensor<1x4xf32>
}

// The mean of nothing is no number.
// CHECK-LABEL: func.func @mean
// CHECK-NEXT:    %[[R:.*]] = graph.full {value = nan} : tensor<4xf32>
// CHECK-NEXT:    return %[[R]]
func.func @mean(%e: tensor<0x4xf32>) -> tensor<4xf32> {
  %0 = graph.mean %e {axes = [0]} : (tensor<0x4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
