// RUN: mlc-opt %s --split-input-file --verify-diagnostics --pass-pipeline=convert-main-to-llvm

// expected-error @below {{expected @main on buffers; run convert-graph-to-main first}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

func.func @main(%x: memref<4xf32>, %y: memref<4xf32>, %w: memref<0xi8>, %s: memref<0xi8>)
    attributes {mlc.inputs = 1 : i64, mlc.outputs = 1 : i64, mlc.plan = {bytes = 0 : i64, sum = 0 : i64, bound = 0 : i64}} {
  runtime.call @k ins(%x : memref<4xf32>) outs(%y : memref<4xf32>)
  return
}
// expected-error @below {{expected kernel @k to be an llvm.func; lower the kernels first}}
loop.func @k(%x: memref<4xf32>, %y: memref<4xf32>) attributes {outputs = 1 : i64} {
  loop.yield
}
