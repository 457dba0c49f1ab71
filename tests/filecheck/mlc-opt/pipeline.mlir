// RUN: mlc-opt %s -p canonicalize,cse | filecheck %s
// RUN: mlc-opt %s --pass-pipeline=canonicalize,cse | filecheck %s
// RUN: mlc-opt %s -pass-pipeline="builtin.module( canonicalize{} , builtin.module(cse),builtin.module())" | filecheck %s
// RUN: mlc-opt %s --passes="scf-for-loop-unroll,canonicalize,canonicalize,cse" | filecheck %s

// CHECK-LABEL: func.func @twice
// CHECK-NEXT:  %[[SUM:.*]] = arith.addi %{{.*}}, %{{.*}} : i32
// CHECK-NEXT:  arith.muli %[[SUM]], %[[SUM]] : i32
func.func @twice(%a: i32, %b: i32) -> i32 {
  %0 = arith.addi %a, %b : i32
  %1 = arith.addi %a, %b : i32
  %unused = arith.subi %a, %b : i32
  %2 = arith.muli %0, %1 : i32
  func.return %2 : i32
}
