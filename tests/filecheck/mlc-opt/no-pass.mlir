// RUN: mlc-opt %s | filecheck %s
// RUN: mlc-opt - < %s | filecheck %s
// RUN: mlc-opt %s --pass-pipeline='builtin.module()' | filecheck %s
// RUN: mlc-opt %s -o %t && filecheck %s < %t
// RUN: mlc-opt %s --mlir-print-op-generic | filecheck %s --check-prefix=GENERIC

// CHECK:      builtin.module {
// CHECK-NEXT:   func.func @empty() {
// CHECK-NEXT:     func.return
// GENERIC:    "func.return"() : () -> ()
func.func @empty() {
  func.return
}
