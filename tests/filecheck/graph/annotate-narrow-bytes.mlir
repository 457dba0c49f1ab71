// RUN: mlc-opt %s -p graph-annotate-narrow-bytes{target=x86-64-v3} | filecheck %s
// RUN: mlc-opt %s -p graph-annotate-narrow-bytes{target=znver4} | filecheck %s --check-prefix=NONE
// RUN: mlc-opt %s -p graph-annotate-narrow-bytes{target=aarch64} | filecheck %s --check-prefix=NONE
// RUN: mlc-opt %s -p "graph-annotate-narrow-bytes{target=x86-64-v3 fixed=false}" | filecheck %s --check-prefix=NONE

// Weights from -64 to 64 in every call; not data, not unsigned bytes.
// CHECK:       func.func private @dense({{.*}} attributes {graph.kernel, mlc.narrow_bytes = array<i64: 1>} {
// One of two calls has a weight of -65.
// CHECK:       func.func private @wider({{.*}} attributes {graph.kernel} {
// No call says what the weights are.
// CHECK:       func.func private @unused({{.*}} attributes {graph.kernel} {
// NONE-NOT:    mlc.narrow_bytes

func.func @main(%x: tensor<1x4xui8>, %v: tensor<2x4xi8>) -> (tensor<1x2xi32>, tensor<1x2xi32>, tensor<1x2xi32>) {
  %narrow = graph.constant dense<[[64, -64, 1, 2], [3, 4, 5, 6]]> : tensor<2x4xi8>
  %wide = graph.constant dense<[[64, -65, 1, 2], [3, 4, 5, 6]]> : tensor<2x4xi8>
  %0 = graph.call @dense(%x, %narrow) : (tensor<1x4xui8>, tensor<2x4xi8>) -> tensor<1x2xi32>
  %1 = graph.call @wider(%x, %narrow) : (tensor<1x4xui8>, tensor<2x4xi8>) -> tensor<1x2xi32>
  %2 = graph.call @wider(%x, %wide) : (tensor<1x4xui8>, tensor<2x4xi8>) -> tensor<1x2xi32>
  return %0, %1, %2 : tensor<1x2xi32>, tensor<1x2xi32>, tensor<1x2xi32>
}

func.func private @dense(%a0: tensor<1x4xui8>, %a1: tensor<2x4xi8>) -> tensor<1x2xi32> attributes {graph.kernel} {
  %0 = graph.dense %a0, %a1 {out_dtype = "int32"} : (tensor<1x4xui8>, tensor<2x4xi8>) -> tensor<1x2xi32>
  return %0 : tensor<1x2xi32>
}

func.func private @wider(%a0: tensor<1x4xui8>, %a1: tensor<2x4xi8>) -> tensor<1x2xi32> attributes {graph.kernel} {
  %0 = graph.dense %a0, %a1 {out_dtype = "int32"} : (tensor<1x4xui8>, tensor<2x4xi8>) -> tensor<1x2xi32>
  return %0 : tensor<1x2xi32>
}

func.func private @unused(%a0: tensor<1x4xui8>, %a1: tensor<2x4xi8>) -> tensor<1x2xi32> attributes {graph.kernel} {
  %0 = graph.dense %a0, %a1 {out_dtype = "int32"} : (tensor<1x4xui8>, tensor<2x4xi8>) -> tensor<1x2xi32>
  return %0 : tensor<1x2xi32>
}
