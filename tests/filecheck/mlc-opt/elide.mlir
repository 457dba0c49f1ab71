// RUN: mlc-opt %s --mlir-elide-elementsattrs-if-larger=2 | filecheck %s
// RUN: mlc-opt %s | filecheck %s --check-prefix=WHOLE

// CHECK: arith.constant dense_resource<__elided__> : tensor<3xi32>
// CHECK: arith.constant dense<[1, 2]> : tensor<2xi32>
// CHECK: arith.constant dense<7> : tensor<9xi32>
// WHOLE: arith.constant dense<[1, 2, 3]> : tensor<3xi32>
func.func @constants() {
  %0 = arith.constant dense<[1, 2, 3]> : tensor<3xi32>
  %1 = arith.constant dense<[1, 2]> : tensor<2xi32>
  %2 = arith.constant dense<7> : tensor<9xi32>
  func.return
}
