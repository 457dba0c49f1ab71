// RUN: mlc-opt %s -p graph-quantize --verify-diagnostics --split-input-file

func.func @backwards(%x: tensor<2x16xf32>) -> tensor<2x8xf32> {
  %w = graph.param "w" : tensor<8x16xf32>
  // expected-error@+1 {{expected mlc.range = [low, high] on a convolution or dense layer by constant weights, but got [2.000000e+00 : f64, 1.000000e+00 : f64]}}
  %0 = graph.dense %x, %w {mlc.range = [2.0 : f64, 1.0 : f64]} : (tensor<2x16xf32>, tensor<8x16xf32>) -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// -----

func.func @no_contraction(%x: tensor<2x16xf32>) -> tensor<2x16xf32> {
  // expected-error@+1 {{expected mlc.range = [low, high] on a convolution or dense layer by constant weights}}
  %0 = graph.relu %x {mlc.range = [0.0 : f64, 1.0 : f64]} : tensor<2x16xf32>
  return %0 : tensor<2x16xf32>
}
