// RUN: mlc-opt %s --split-input-file --verify-diagnostics --pass-pipeline=convert-graph-to-main

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected only kernel calls, parameters and reshapes in @main; run graph-outline-kernels first}}
  %0 = graph.relu %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @below {{expected static sizes in @main, but got tensor<?xf32, #graph.dims<[n]>>; fix them with shapes=}}
func.func @main(%x: tensor<?xf32, #graph.dims<[n]>>) -> tensor<?xf32, #graph.dims<[n]>> {
  return %x : tensor<?xf32, #graph.dims<[n]>>
}
