// RUN: mlc-opt %s -p graph-fold-constant | filecheck %s

// CHECK-LABEL: func.func @chain
// CHECK-NEXT:    %[[C:.*]] = graph.constant dense<[2.000000e+00, 3.000000e+00]> : tensor<2xf32>
// CHECK-NEXT:    graph.multiply %x, %[[C]]
func.func @chain(%x: tensor<5x2xf32>) -> tensor<5x2xf32> {
  %0 = graph.constant dense<[9.0, 4.0]> : tensor<2xf32>
  %1 = graph.flip %0 {axes = [0]} : tensor<2xf32>
  %2 = graph.sqrt %1 : tensor<2xf32>
  %3 = graph.multiply %x, %2 : (tensor<5x2xf32>, tensor<2xf32>) -> tensor<5x2xf32>
  return %3 : tensor<5x2xf32>
}

// A fill stays a fill, however large, and is summed without making it.
// CHECK-LABEL: func.func @fill
// CHECK-NEXT:    %[[F:.*]] = graph.full {value = 8.0} : tensor<1000x1000xf32>
// CHECK-NEXT:    graph.add %x, %[[F]]
func.func @fill(%x: tensor<1000x1000xf32>) -> tensor<1000x1000xf32> {
  %0 = graph.full {value = 2.0} : tensor<500x2000xf32>
  %1 = graph.constant dense<3.0> : tensor<f32>
  %2 = graph.power %0, %1 : (tensor<500x2000xf32>, tensor<f32>) -> tensor<500x2000xf32>
  %3 = graph.reshape %2 : (tensor<500x2000xf32>) -> tensor<1000x1000xf32>
  %4 = graph.add %x, %3 : tensor<1000x1000xf32>
  return %4 : tensor<1000x1000xf32>
}

// Without a weight store neither weights nor large results fold.
// CHECK-LABEL: func.func @symbolic
// CHECK:         graph.param "w"
// CHECK:         graph.transpose
// CHECK:         graph.iota
// CHECK:         graph.neg
func.func @symbolic() -> (tensor<3x2xf32>, tensor<100xf32>) {
  %w = graph.param "w" : tensor<2x3xf32>
  %0 = graph.transpose %w {axes = [1, 0]} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = graph.iota : tensor<100xf32>
  %2 = graph.neg %1 : tensor<100xf32>
  return %0, %2 : tensor<3x2xf32>, tensor<100xf32>
}

// The limit on what folding allocates holds: the sum would need a gigabyte.
// CHECK-LABEL: func.func @hostile
// CHECK:         graph.pad
func.func @hostile() -> tensor<f32> {
  %0 = graph.constant dense<2.0> : tensor<1xf32>
  %1 = graph.pad %0 {pad_width = [0, 268435455], value = 1.0} : (tensor<1xf32>) -> tensor<268435456xf32>
  %2 = graph.sum %1 {axes = [0]} : (tensor<268435456xf32>) -> tensor<f32>
  return %2 : tensor<f32>
}
