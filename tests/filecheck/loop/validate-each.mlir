// RUN: mlc-opt %s --validate-each -p canonicalize 2>&1 | filecheck %s

// A kernel whose own interpreter refuses it is a warning.
// CHECK: validate-each.mlir:7:3: warning: 'loop.func' op is not validated, for its interpreter says: 'loop.load' reads %A[4], out of bounds of memref<4xf32>
// CHECK: loop.func @f
builtin.module {
  loop.func @f(%A: memref<4xf32>, %C: memref<4xf32>) attributes {outputs = 1 : i64} {
    loop.for %i = 0 to 9 {
      %a = loop.load %A[%i floordiv 2] : f32
      loop.store %a, %C[0] : f32
    }
  }
}
