// RUN: not mlc-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not mlc-opt %s -split-input-file --mlir-print-op-generic 2>&1 | filecheck %s --check-prefix=GENERIC

// One piece with an error does not stop the others, and lines are counted in the whole file.

// CHECK: func.func @first
// GENERIC: "first"
func.func @first() {
  func.return
}

// -----

// CHECK: split-input-file.mlir:[[# @LINE + 3]]:3: error: 'func.return' op
// CHECK-NEXT: func.return %a
func.func @second(%a: i32) {
  func.return %a : i32
}

// -----

// CHECK: // -----
// CHECK: func.func @third
func.func @third() {
  func.return
}
