// RUN: mlc-opt %s --split-input-file --verify-diagnostics --pass-pipeline=convert-graph-to-main

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected only kernel calls, parameters and views in @main; run graph-outline-kernels first}}
  %0 = graph.relu %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<8xf32> {
  // expected-error @below {{expected operand 0 to be written for it alone; run graph-outline-kernels first}}
  %0 = graph.concatenate %x, %x {axis = 0} : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @main(%x: tensor<4x4xf32>) -> tensor<4x2xf32> {
  // expected-error @below {{expected a graph.slice in @main to be one piece of a computed tensor; run graph-outline-kernels}}
  %0 = graph.slice %x {begin = [0, 0], end = [4, 2], strides = [1, 1]} : (tensor<4x4xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{views in @main; a model is made of graph ops: write graph.add}}
  %0 = arith.addf %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
