// RUN: mlc-opt %s -p graph-outline-kernels | filecheck %s

// Numbers that count up, which a region reads from outside, are made by a kernel.
// CHECK-LABEL: func.func @counted
// CHECK:         %[[I:.*]] = graph.call @copy_{{.*}}() : () -> tensor<2x3xi64>
// CHECK-NEXT:    graph.call @add_{{.*}}(%x, %[[I]])
func.func @counted(%x: tensor<2x3xi64>) -> tensor<2x3xi64> {
  %0 = graph.iota {axis = 1} : tensor<2x3xi64>
  %1 = graph.fused "add" (%a = %x : tensor<2x3xi64>, %b = %0 : tensor<2x3xi64>) -> tensor<2x3xi64> {
    %2 = graph.add %a, %b : tensor<2x3xi64>
    graph.yield %2 : tensor<2x3xi64>
  }
  return %1 : tensor<2x3xi64>
}

// Equal regions share a kernel, names aside; where they differ in a constant of one element, it is an operand.
// CHECK-LABEL: func.func @main
// CHECK:         %[[A:.*]] = graph.call @[[K:relu_add_[0-9a-f]*]](%x, %{{.*}}) {origins = ["first"]}
// CHECK:         %[[B:.*]] = graph.call @[[K]](%[[A]], %{{.*}}) {origins = ["second"]}
// CHECK-NEXT:    %[[V:.*]] = graph.reshape %[[B]]
// CHECK-NEXT:    %[[E:.*]] = graph.call @[[EXP:exp_[0-9a-f]*]](%[[V]])
// CHECK-NEXT:    graph.call @[[EXP]](%[[E]])
// CHECK:       func.func private @[[K]](%{{.*}}: tensor<2x3xf32>, %{{.*}}: tensor<f32>) -> tensor<2x3xf32> attributes {graph.kernel}
// CHECK:       func.func private @[[EXP]]
// CHECK-NOT:   func.func
func.func @main(%x: tensor<2x3xf32>) -> tensor<6xf32> {
  %0 = graph.fused "relu_add" (%a = %x : tensor<2x3xf32>) -> tensor<2x3xf32> {
    %c = graph.constant dense<1.0> : tensor<f32>
    %1 = graph.relu %a : tensor<2x3xf32>
    %2 = graph.add %1, %c : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
    graph.yield %2 : tensor<2x3xf32>
  } {origins = ["first"]}
  %3 = graph.fused "relu_add" (%b = %0 : tensor<2x3xf32>) -> tensor<2x3xf32> {
    %d = graph.constant dense<2.0> : tensor<f32>
    %4 = graph.relu %b : tensor<2x3xf32>
    %5 = graph.add %4, %d : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
    graph.yield %5 : tensor<2x3xf32>
  } {origins = ["second"]}
  %6 = graph.fused "reshape" (%e = %3 : tensor<2x3xf32>) -> tensor<6xf32> {
    %7 = graph.reshape %e : (tensor<2x3xf32>) -> tensor<6xf32>
    graph.yield %7 : tensor<6xf32>
  }
  %8 = graph.exp %6 : tensor<6xf32>
  %9 = graph.exp %8 : tensor<6xf32>
  return %9 : tensor<6xf32>
}
