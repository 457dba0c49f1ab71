// RUN: python %S/Inputs/write_weights.py %t.safetensors w=int8:64x32 scales=float32:64x1
// RUN: mlc-opt %s --weights %t.safetensors -p graph-fold-constant,graph-narrow-weights | filecheck %s

// The product reads the bytes; the scales, one for each of its columns, multiply its result.
// CHECK-LABEL: func.func @dense
// CHECK:         %[[W:.*]] = graph.param "narrow.weight{{.*}}" : tensor<64x32xi8>
// CHECK:         %[[D:.*]] = graph.dense %x, %[[W]] {out_dtype = "float32"} : (tensor<1x32xf32>, tensor<64x32xi8>) -> tensor<1x64xf32>
// CHECK-NEXT:    graph.multiply %[[D]], %{{.*}} : (tensor<1x64xf32>, tensor<64xf32>) -> tensor<1x64xf32>
func.func @dense(%x: tensor<1x32xf32>) -> tensor<1x64xf32> {
  %w = graph.param "w" : tensor<64x32xi8>
  %s = graph.param "scales" : tensor<64x1xf32>
  %0 = graph.cast %w : (tensor<64x32xi8>) -> tensor<64x32xf32>
  %1 = graph.multiply %0, %s : (tensor<64x32xf32>, tensor<64x1xf32>) -> tensor<64x32xf32>
  %2 = graph.dense %x, %1 : (tensor<1x32xf32>, tensor<64x32xf32>) -> tensor<1x64xf32>
  return %2 : tensor<1x64xf32>
}
