// RUN: mlc-opt %s --split-input-file --verify-diagnostics | filecheck %s

func.func @before_definition(%a: i32) -> i32 {
  // expected-error@+1 {{'arith.addi' op operand #1 does not dominate this use: %b is defined later}}
  %0 = arith.addi %a, %b : i32
  %b = arith.addi %a, %a : i32
  func.return %0 : i32
}

// -----

func.func @own_result(%a: i32) -> i32 {
  // expected-error@+1 {{operand #0 does not dominate this use}}
  %0 = "arith.addi"(%0, %a) : (i32, i32) -> i32
  func.return %0 : i32
}

// -----

func.func @own_region() {
  // expected-error@+1 {{use of undeclared value %inner}}
  "scf.if"(%inner) ({
    %inner = arith.constant true
    scf.yield
  }, {
  }) : (i1) -> ()
  func.return
}

// -----

func.func @sibling_region(%c: i1, %a: i32) {
  scf.if %c {
    // expected-error@+1 {{operand #0 does not dominate this use: %later}}
    %0 = arith.addi %later, %a : i32
  } else {
    %later = arith.addi %a, %a : i32
  }
  func.return
}

// -----

func.func @one_branch_only(%c: i1, %a: i32) -> i32 {
  cf.cond_br %c, ^then, ^join
^then:
  %b = arith.addi %a, %a : i32
  cf.br ^join
^join:
  // expected-error@+1 {{operand #0 does not dominate this use: %b}}
  func.return %b : i32
}

// -----

// CHECK-LABEL: func.func @blocks_in_any_order
func.func @blocks_in_any_order(%c: i1, %a: i32) -> i32 {
  %b = arith.addi %a, %a : i32
  cf.br ^second
^third:
  func.return %d : i32
^second:
  %d = arith.addi %b, %a : i32
  cf.br ^third
}

// -----

// CHECK-LABEL: func.func @unreachable
func.func @unreachable(%a: i32) -> i32 {
  func.return %a : i32
^nowhere:
  func.return %b : i32
^elsewhere:
  %b = arith.addi %a, %a : i32
  cf.br ^nowhere
}

// -----

// CHECK-LABEL: func.func @loop
func.func @loop(%c: i1, %a: i32) -> i32 {
  cf.br ^head(%a : i32)
^head(%x: i32):
  %y = arith.addi %x, %a : i32
  cf.cond_br %c, ^head(%y : i32), ^exit
^exit:
  func.return %y : i32
}

// -----

// CHECK-LABEL: func.func @capture
func.func @capture(%c: i1, %a: i32) {
  %b = arith.addi %a, %a : i32
  scf.if %c {
    %0 = arith.addi %b, %a : i32
  }
  func.return
}
