// RUN: mlc-opt %s -p graph-order-calls | filecheck %s
// RUN: mlc-opt %s -p graph-order-calls,convert-graph-to-main | filecheck %s --check-prefix=PLAN

// The first large tensor is used before the second is made.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %a = graph.call @up(%x)
// CHECK-NEXT:    %c = graph.call @down(%a)
// CHECK-NEXT:    %b = graph.call @up(%x)
// CHECK-NEXT:    %d = graph.call @down(%b)
// PLAN:        mlc.plan = {bytes = 16512 : i64, sum = 32896 : i64, bound = 16512 : i64}
func.func @main(%x: tensor<16xf32>) -> tensor<16xf32> {
  %a = graph.call @up(%x) : (tensor<16xf32>) -> tensor<4096xf32>
  %b = graph.call @up(%x) : (tensor<16xf32>) -> tensor<4096xf32>
  %c = graph.call @down(%a) : (tensor<4096xf32>) -> tensor<16xf32>
  %d = graph.call @down(%b) : (tensor<4096xf32>) -> tensor<16xf32>
  %y = graph.call @add(%c, %d) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  return %y : tensor<16xf32>
}
