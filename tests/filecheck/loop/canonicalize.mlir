// RUN: mlc-opt %s --pass-pipeline=canonicalize | filecheck %s

// What computes a value that nobody uses goes; accesses of memory, and loops round them, stay.
// CHECK-LABEL: loop.func @unused
loop.func @unused(%A: memref<4xf32>, %C: memref<4xf32>) attributes {outputs = 1 : i64} {
  // CHECK-NOT: loop.broadcast
  // CHECK-NOT: loop.index
  // CHECK: loop.for %i = 0 to 4 {
  loop.for %i = 0 to 4 {
    // CHECK-NEXT: %a = loop.load %A[%i] : f32
    %a = loop.load %A[%i] : f32
    %v = loop.broadcast %a : f32 to vector<4xf32>
    %w = loop.fma %a, %v, %v : f32, vector<4xf32>, vector<4xf32>
    %s = loop.reduce sum %w axes [0] : vector<4xf32> to vector<1xf32>
    %x = loop.index %i + 1 : index
    // CHECK-NEXT: loop.store %a, %C[%i] : f32
    loop.store %a, %C[%i] : f32
  // CHECK-NEXT: }
  }
}

// Expressions are canonical as they are parsed, masks and bindings too.
// CHECK-LABEL: loop.func @canonical
loop.func @canonical(%A: memref<64xf32>, %C: memref<64xf32>) attributes {outputs = 1 : i64} {
  %z = arith.constant 0.0 : f32
  loop.for %i = 0 to 8 {
    loop.for %j = 0 to 8 {
      // CHECK: loop.block "b" (%v : 64 = %i * 8 + %j) {
      loop.block "b" (%v : 64 = (%i * 8 + %j) floordiv 1) {
        // CHECK-NEXT: %a = loop.load %A[%v] mask (%v - 1) else %z : f32
        %a = loop.load %A[%v * 4 floordiv 4] mask (%v + %v - %v - 1) else %z : f32
        // CHECK-NEXT: loop.store %a, %C[%v] : f32
        loop.store %a, %C[(%v floordiv 8) * 8 + %v mod 8] : f32
      }
    }
  }
}
