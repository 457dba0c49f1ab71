// RUN: mlc-opt %s | mlc-opt | filecheck %s

// Calls of functions outside of mlc: by a registered name, and of a C symbol with arguments of its own.
// CHECK-LABEL: loop.func @calls
// CHECK-NEXT:    loop.call registered "my.negate" (%x, %y) outputs 1 : memref<4xf32>, memref<4xf32>
// CHECK-NEXT:    loop.call c "scale" [1 : index, 2.000000e+00 : f32, 0 : index, 4 : i64] libraries ["m"] status (%x, %y) outputs 1 : memref<4xf32>, memref<4xf32>
loop.func @calls(%x: memref<4xf32>, %y: memref<4xf32>) attributes {outputs = 1 : i64} {
  loop.call registered "my.negate" (%x, %y) outputs 1 : memref<4xf32>, memref<4xf32>
  loop.call c "scale" [1 : index, 2.000000e+00 : f32, 0 : index, 4 : i64] libraries ["m"] status (%x, %y) outputs 1
    : memref<4xf32>, memref<4xf32>
}
