// RUN: mlc-opt %s --pass-pipeline=convert-graph-to-te --split-input-file --verify-diagnostics

func.func private @weights() -> tensor<4xf32> attributes {graph.kernel} {
  // expected-error @below {{expected an op that lowers to te, but got graph.param}}
  %0 = graph.param "w" : tensor<4xf32>
  return %0 : tensor<4xf32>
}
