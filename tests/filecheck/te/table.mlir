// RUN: mlc-opt %s | filecheck %s
// RUN: mlc-opt %s -p convert-te-to-loop --validate-each | filecheck %s --check-prefix=LOOP
// RUN: mlc-opt %s -p convert-te-to-loop,loop-tiles,convert-loop-to-llvm | filecheck %s --check-prefix=LLVM

// CHECK-LABEL: te.func @scaled
// CHECK:       %t = te.table dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
// LOOP-LABEL:  loop.func @scaled
// LOOP:        %t = loop.table dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
// LOOP:        loop.load %t[(%vi mod 2)]
// LLVM:        llvm.mlir.global private constant @scaled.table0
te.func @scaled(%x: tensor<8xf32>) -> tensor<8xf32> {
  %t = te.table dense<[1.0, 2.0]> : tensor<2xf32>
  %y = te.compute "y" (%i : 8) {
    %0 = te.read %t[%i mod 2] : f32
    %1 = te.read %x[%i] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<8xf32>
  te.return %y : tensor<8xf32>
}
