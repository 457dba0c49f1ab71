// RUN: mlc-opt %s -p canonicalize,cse --mlir-print-ir-before-all 2>&1 | filecheck %s --check-prefix=BEFORE-ALL
// RUN: mlc-opt %s -p canonicalize,cse --mlir-print-ir-after-all 2>&1 | filecheck %s --check-prefix=AFTER-ALL
// RUN: mlc-opt %s -p canonicalize,cse --mlir-print-ir-before=cse 2>&1 | filecheck %s --check-prefix=BEFORE
// RUN: mlc-opt %s -p canonicalize,cse --mlir-print-ir-after=cse 2>&1 | filecheck %s --check-prefix=AFTER
// RUN: mlc-opt %s -p canonicalize,cse,cse --mlir-print-ir-after-change 2>&1 | filecheck %s --check-prefix=CHANGE

// BEFORE-ALL:      // -----// IR Dump Before CanonicalizePass (canonicalize) //----- //
// BEFORE-ALL-NEXT: builtin.module {
// BEFORE-ALL:      // -----// IR Dump Before {{.*}} (cse) //----- //

// AFTER-ALL: // -----// IR Dump After CanonicalizePass (canonicalize) //----- //
// AFTER-ALL: // -----// IR Dump After {{.*}} (cse) //----- //

// BEFORE-NOT: canonicalize
// BEFORE:     // -----// IR Dump Before {{.*}} (cse) //----- //

// AFTER-NOT: canonicalize
// AFTER:     // -----// IR Dump After {{.*}} (cse) //----- //

// CHANGE-NOT:  Dump After CanonicalizePass
// CHANGE:      // -----// IR Dump After {{.*}} (cse) //----- //
// CHANGE-NOT:  Dump
func.func @twice(%a: i32, %b: i32) -> i32 {
  %0 = arith.addi %a, %b : i32
  %1 = arith.addi %a, %b : i32
  %2 = arith.muli %0, %1 : i32
  func.return %2 : i32
}
