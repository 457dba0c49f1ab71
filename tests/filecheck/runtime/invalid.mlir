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

// -----

func.func @main(%x: memref<8xf32>) {
  // expected-error @below {{expected a part within the 32 bytes of memref<8xf32>, but got 16 bytes at 20; make the offset or the type smaller}}
  %0 = runtime.part %x at 20 : memref<8xf32> to memref<4xf32>
  return
}

// -----

func.func @main(%x: memref<8xf32>) {
  // expected-error @below {{expected an offset that is a multiple of 4 bytes, but got 6}}
  %0 = runtime.part %x at 6 : memref<8xf32> to memref<4xf32>
  return
}

// -----

func.func @main(%x: memref<?x8xf32>) {
  // expected-error @below {{expected the size of memref<?x8xf32> in bytes, which its type leaves open; add `bytes %n`}}
  runtime.fill %x : memref<?x8xf32>
  return
}

// -----

func.func @main(%x: memref<4x?xf32>, %i: index) {
  // expected-error @below {{expected the size of memref<?xf32> in bytes, which its type leaves open; add `bytes %n`}}
  %0 = runtime.row %x[%i] : memref<4x?xf32> to memref<?xf32>
  return
}

// -----

func.func @main(%x: memref<4x?xf32>, %i: index) {
  // expected-error @below {{expected the size of memref<?xf32> in bytes, which its type leaves open; add `bytes %n`}}
  %0 = runtime.part %x at 0 + %i : memref<4x?xf32> to memref<?xf32>
  return
}
