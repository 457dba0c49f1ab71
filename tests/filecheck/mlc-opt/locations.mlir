// RUN: mlc-opt %s --mlir-print-debuginfo | filecheck %s

// CHECK: arith.addi %{{.*}} : i32 loc("{{.*}}locations.mlir":[[# @LINE + 5]]:8)
// CHECK: arith.muli %{{.*}} : i32 loc("conv1")
// CHECK: func.return %{{.*}} : i32 loc("{{.*}}locations.mlir":[[# @LINE + 5]]:3)
// CHECK: } loc("{{.*}}locations.mlir":[[# @LINE + 1]]:1)
func.func @f(%a: i32) -> i32 {
  %0 = arith.addi %a, %a : i32
  %1 = arith.muli %0, %0 : i32 loc("conv1")
  func.return %1 : i32
}
