// RUN: mlc-opt %s --verify-diagnostics --split-input-file

func.func @main(%x: memref<8xf32>, %y: memref<4xf32>) {
  // expected-error @below {{expected buffers of types (memref<8xf32>, memref<8xf32>), as @relu has, but got (memref<8xf32>, memref<4xf32>)}}
  runtime.call @relu ins(%x : memref<8xf32>) outs(%y : memref<4xf32>)
  return
}
func.func private @relu(tensor<8xf32>) -> tensor<8xf32>

// -----

func.func @main(%x: memref<8xf32>) {
  // expected-error @below {{expected buffers of types (memref<8xf32>, memref<8xf32>), as @relu has, but got (memref<8xf32>)}}
  runtime.call @relu ins() outs(%x : memref<8xf32>)
  return
}
loop.func @relu(%x: memref<8xf32>, %y: memref<8xf32>) attributes {outputs = 1 : i64} {
  loop.yield
}
