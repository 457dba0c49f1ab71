// RUN: mlc-opt %s --split-input-file --verify-diagnostics | filecheck %s
// RUN: mlc-opt %s -split-input-file -verify-diagnostics -allow-unregistered-dialect | filecheck %s

func.func @same_line() {
  func.return %x : i32 // expected-error {{use of undeclared value %x}}
}

// -----

// expected-error@+2 {{does not dominate this use}}
func.func @offset(%a: i32) -> i32 {
  %0 = arith.addi %a, %b : i32
  %b = arith.addi %a, %a : i32
  func.return %0 : i32
}

// -----

func.func @above(%a: i32) {
  func.return %a : i32
  // A comment of ours may stand in between only on lines of their own kind.
}
// expected-error @-3 {{Expected arguments to have the same types as the function output types}}

// -----

func.func @above_word(%a: i32) {
  func.return %a : i32
  // expected-error@above {{'func.return' op}}
}

// -----

func.func @below_word(%a: i32) {
  // expected-error-re@below {{'func.{{[a-z]+}}' op}}
  func.return %a : i32
}

// -----

// CHECK-LABEL: func.func @valid
func.func @valid() {
  func.return
}
