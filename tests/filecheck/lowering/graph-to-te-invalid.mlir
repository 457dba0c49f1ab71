// RUN: mlc-opt %s --pass-pipeline=convert-graph-to-te --split-input-file --verify-diagnostics

func.func private @weights() -> tensor<4xf32> attributes {graph.kernel} {
  // expected-error @below {{expected an op that lowers to te, but got graph.param}}
  %0 = graph.param "w" : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @below {{expected operands that are tensors of static sizes, but got tensor<?xf32, #graph.dims<[N]>>}}
func.func private @symbolic(%x: tensor<?xf32, #graph.dims<[N]>>) -> tensor<?xf32, #graph.dims<[N]>>
    attributes {graph.kernel} {
  %0 = graph.exp %x : tensor<?xf32, #graph.dims<[N]>>
  return %0 : tensor<?xf32, #graph.dims<[N]>>
}
