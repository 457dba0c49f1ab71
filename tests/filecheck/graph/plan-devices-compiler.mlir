// RUN: mlc-opt %s -p 'graph-plan-devices{devices=cpu+npu compilers=npu:toy}' | filecheck %s

// What the compiler of a device made is on the device: its operands are copied there, and its results to their
// readers elsewhere; a value between two of its kernels stays.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %[[X:.*]] = graph.device_copy %x {src = "cpu", dst = "npu", graph.device = "npu"}
// CHECK-NEXT:    %[[A:.*]] = graph.call @toy_0(%[[X]]) {graph.device = "npu"}
// CHECK-NEXT:    %[[B:.*]] = graph.call @toy_0(%[[A]]) {graph.device = "npu"}
// CHECK-NEXT:    %[[C:.*]] = graph.device_copy %[[B]] {src = "npu", dst = "cpu", graph.device = "cpu"}
// CHECK-NEXT:    %[[D:.*]] = graph.exp %[[C]] {graph.device = "cpu"}
// CHECK-NEXT:    func.return %[[D]]
// CHECK:       func.func private @toy_0({{.*}} attributes {compiler = "toy", graph.kernel, graph.device = "npu"}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.call @toy_0(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.call @toy_0(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = graph.exp %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}
func.func private @toy_0(%a: tensor<4xf32>) -> tensor<4xf32> attributes {compiler = "toy", graph.kernel} {
  %0 = graph.relu %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
