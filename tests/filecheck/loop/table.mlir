// RUN: mlc-opt %s | filecheck %s
// RUN: MLC_ROUNDTRIP

// CHECK-LABEL: loop.func @scaled
// CHECK-NEXT:    %t = loop.table dense<[1, -2]> : tensor<2xi32>
// CHECK:         loop.load %t[(%i mod 2)] : i32
loop.func @scaled(%x: memref<8xi32>, %y: memref<8xi32>) attributes {outputs = 1 : i64} {
  %t = loop.table dense<[1, -2]> : tensor<2xi32>
  loop.for %i = 0 to 8 {
    %a = loop.load %t[%i mod 2] : i32
    %b = loop.load %x[%i] : i32
    %c = arith.muli %a, %b : i32
    loop.store %c, %y[%i] : i32
  }
}
