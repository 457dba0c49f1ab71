// RUN: mlc-opt %s -p graph-fuse-ops,graph-outline-kernels,convert-graph-to-main | filecheck %s

// Each row is read and written where it is, and the state is copied from it.
// CHECK-LABEL: func.func @main(%x: memref<5x4xf32>, %h: memref<4xf32>, %c: memref<i1>
// CHECK:         "memref.copy"(%h, %[[S:.*]]) :
// CHECK:         scf.for %[[I:.*]] = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK-NEXT:      %[[X:.*]] = runtime.row %x[%[[I]]] : memref<5x4xf32> to memref<4xf32>
// CHECK-NEXT:      %[[Y:.*]] = runtime.row %out0[%[[I]]]
// CHECK-NEXT:      runtime.call @{{.*}} ins(%[[S]], %[[X]] : {{.*}}) outs(%[[Y]] :
// CHECK-NEXT:      "memref.copy"(%[[Y]], %[[S]])
// CHECK-NEXT:    }
// The stack of a loop that may end early begins as zeros; the condition is a byte in memory.
// CHECK:         runtime.fill %out1
// CHECK:         scf.while
// CHECK:           memref.load %[[C:.*]][] : memref<i1>
// CHECK:           scf.condition
// CHECK:           runtime.call @less{{.*}} outs(%[[C]] : memref<i1>)
// Both ways of an if write its result.
// CHECK:         scf.if
// CHECK-NEXT:      "memref.copy"(%{{.*}}, %out2)
// CHECK-NEXT:    } else {
// CHECK-NEXT:      runtime.call @neg{{.*}} outs(%out2 : memref<4xf32>)
func.func @main(%x: tensor<5x4xf32>, %h: tensor<4xf32>, %c: tensor<i1>) -> (tensor<5x4xf32>, tensor<10x4xf32>, tensor<4xf32>) {
  %s, %ys = graph.scan carried(%h : tensor<4xf32>) rows(%x : tensor<5x4xf32>) -> (tensor<4xf32>, tensor<5x4xf32>) {
  ^bb0(%a: tensor<4xf32>, %row: tensor<4xf32>):
    %0 = graph.add %a, %row : tensor<4xf32>
    graph.yield %0, %0 : tensor<4xf32>, tensor<4xf32>
  }
  %z, %rows, %n = graph.loop at_most 10 while(%c : tensor<i1>) carried(%s : tensor<4xf32>) -> (tensor<4xf32>, tensor<10x4xf32>, tensor<i64>) {
  ^bb0(%i: tensor<i64>, %a: tensor<4xf32>):
    %0 = graph.exp %a : tensor<4xf32>
    %three = graph.constant dense<3> : tensor<i64>
    %more = graph.less %i, %three : (tensor<i64>, tensor<i64>) -> tensor<i1>
    graph.yield %more, %0, %a : tensor<i1>, tensor<4xf32>, tensor<4xf32>
  }
  %r = graph.if %c : tensor<i1> reads(%z, %h : tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    graph.yield %a : tensor<4xf32>
  } else {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %0 = graph.neg %b : tensor<4xf32>
    graph.yield %0 : tensor<4xf32>
  }
  return %ys, %rows, %r : tensor<5x4xf32>, tensor<10x4xf32>, tensor<4xf32>
}
