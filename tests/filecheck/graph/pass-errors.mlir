// RUN: mlc-opt %s -p "graph-alter-op-layout{block=1}" --verify-diagnostics --split-input-file
// RUN: mlc-opt %s -p graph-fuse-ops,graph-alter-op-layout 2>&1 | filecheck %s --check-prefix=FUSED; true
// RUN: mlc-opt %s -p "graph-eliminate-common-subexpr{skip=relus}" 2>&1 | filecheck %s --check-prefix=SKIP; true

// SKIP: expected skip to name graph ops, but got 'relus'; did you mean 'relu'
// FUSED: expected a module without graph.fused
// expected-error @+1 {{expected a block of at least 2 channels, but got 1}}
builtin.module {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = graph.relu %x : tensor<4xf32>
    %1 = graph.exp %0 : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
