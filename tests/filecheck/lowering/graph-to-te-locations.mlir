// RUN: mlc-opt %s --pass-pipeline=convert-graph-to-te,te-inline,convert-te-to-loop --mlir-print-debuginfo | filecheck %s

// Calls of a kernel stay as they are while it goes down the levels.
// CHECK-LABEL: func.func @main
// CHECK:         graph.call @k(%x) : (tensor<4x5xf32>) -> tensor<4xf32>
func.func @main(%x: tensor<4x5xf32>) -> tensor<4xf32> {
  %0 = graph.call @k(%x) : (tensor<4x5xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// The source name of an op is on its stage, and from there on its loops and block.
// CHECK-LABEL: loop.func @k
// CHECK:         loop.block "sum"
// CHECK:         } loc("pool5")
// CHECK:         loop.block "relu"
// CHECK:         } loc("act1")
func.func private @k(%x: tensor<4x5xf32>) -> tensor<4xf32> attributes {graph.kernel} {
  %0 = graph.sum %x {axes = [1]} : (tensor<4x5xf32>) -> tensor<4xf32> loc("pool5")
  %1 = graph.relu %0 : tensor<4xf32> loc("act1")
  return %1 : tensor<4xf32>
}
