// RUN: mlc-opt %s --split-input-file -p graph-plan-devices | filecheck %s

// TVM's cases of PlanDevices, by their names there; one copy serves all readers on a device.

// CHECK-LABEL: func.func @plain
// CHECK-NOT:     graph.device
func.func @plain(%a: tensor<5x7xf32>, %b: tensor<5x7xf32>) -> tensor<5x7xf32> {
  %0 = graph.add %a, %b : tensor<5x7xf32>
  return %0 : tensor<5x7xf32>
}

// -----

// left_add_on_npu: arguments of @main come from the host, and the result goes there.
// CHECK-LABEL: func.func @main(%a: tensor<5x7xf32> {graph.device = "cpu"}
// CHECK-DAG:     [[A:%\d+]] = graph.device_copy %a {src = "cpu", dst = "npu", graph.device = "npu"}
// CHECK-DAG:     [[B:%\d+]] = graph.device_copy %b {src = "cpu", dst = "npu", graph.device = "npu"}
// CHECK:         [[S:%\d+]] = graph.add [[A]], [[B]] {graph.device = "npu"}
// CHECK-NEXT:    [[H:%\d+]] = graph.device_copy [[S]] {src = "npu", dst = "cpu", graph.device = "cpu"}
// CHECK-NEXT:    [[R:%\d+]] = graph.add %c, %d {graph.device = "cpu"}
// CHECK-NEXT:    graph.subtract [[H]], [[R]] {graph.device = "cpu"}
// CHECK-NEXT:    return
func.func @main(%a: tensor<5x7xf32>, %b: tensor<5x7xf32>, %c: tensor<5x7xf32>, %d: tensor<5x7xf32>) -> tensor<5x7xf32> {
  %0 = graph.add %a, %b : tensor<5x7xf32>
  %1 = graph.on_device %0 {device = "npu"} : tensor<5x7xf32>
  %2 = graph.add %c, %d : tensor<5x7xf32>
  %3 = graph.subtract %1, %2 : tensor<5x7xf32>
  return %3 : tensor<5x7xf32>
}

// -----

// left_add_on_npu_via_copy: a copy in the text constrains both of its ends; arguments of other functions are where
// their readers are.
// CHECK-LABEL: func.func @via_copy(%a: tensor<5x7xf32> {graph.device = "npu"}, %c: tensor<5x7xf32> {graph.device = "cpu"})
// CHECK-NEXT:    [[S:%\d+]] = graph.relu %a {graph.device = "npu"}
// CHECK-NEXT:    [[H:%\d+]] = graph.device_copy [[S]] {src = "npu", dst = "cpu"
// CHECK-NEXT:    graph.subtract [[H]], %c {graph.device = "cpu"}
func.func @via_copy(%a: tensor<5x7xf32>, %c: tensor<5x7xf32>) -> tensor<5x7xf32> {
  %0 = graph.relu %a : tensor<5x7xf32>
  %1 = graph.device_copy %0 {src = "npu", dst = "cpu"} : tensor<5x7xf32>
  %2 = graph.subtract %1, %c : tensor<5x7xf32>
  return %2 : tensor<5x7xf32>
}

// -----

// both_adds_on_npu
// CHECK-LABEL: func.func @both
// CHECK-COUNT-2: graph.device_copy {{.*}}src = "npu", dst = "cpu"
// CHECK:         graph.subtract
// CHECK-NOT:     graph.device_copy
func.func @both(%a: tensor<5x7xf32>, %c: tensor<5x7xf32>) -> tensor<5x7xf32> {
  %0 = graph.relu %a : tensor<5x7xf32>
  %1 = graph.on_device %0 {device = "npu"} : tensor<5x7xf32>
  %2 = graph.exp %c : tensor<5x7xf32>
  %3 = graph.on_device %2 {device = "npu"} : tensor<5x7xf32>
  %4 = graph.subtract %1, %3 : tensor<5x7xf32>
  return %4 : tensor<5x7xf32>
}

// -----

// sharing: a value that two readers need on a device is copied once.
// CHECK-LABEL: func.func @sharing
// CHECK:         [[S:%\d+]] = graph.relu %a {graph.device = "npu"}
// CHECK-NEXT:    [[H:%\d+]] = graph.device_copy [[S]]
// CHECK-NEXT:    [[E:%\d+]] = graph.exp [[H]]
// CHECK-NEXT:    graph.subtract [[H]], [[E]]
// CHECK-NOT:     graph.device_copy
func.func @sharing(%a: tensor<5x7xf32>) -> tensor<5x7xf32> {
  %0 = graph.relu %a : tensor<5x7xf32>
  %1 = graph.on_device %0 {device = "npu"} : tensor<5x7xf32>
  %2 = graph.on_device %0 {device = "npu"} : tensor<5x7xf32>
  %3 = graph.exp %2 : tensor<5x7xf32>
  %4 = graph.subtract %1, %3 : tensor<5x7xf32>
  return %4 : tensor<5x7xf32>
}

// -----

// func_param_on_npu: with constrain_result what reads it is there too, and nothing is copied.
// CHECK-LABEL: func.func @param(%a: tensor<5x7xf32> {graph.device = "npu"}, %b: tensor<5x7xf32> {graph.device = "npu"}) -> (tensor<5x7xf32> {graph.device = "npu"})
// CHECK-NEXT:    graph.add %a, %b {graph.device = "npu"}
// CHECK-NEXT:    return
func.func @param(%a: tensor<5x7xf32>, %b: tensor<5x7xf32>) -> tensor<5x7xf32> {
  %0 = graph.on_device %a {device = "npu", constrain_result = true} : tensor<5x7xf32>
  %1 = graph.add %0, %b : tensor<5x7xf32>
  return %1 : tensor<5x7xf32>
}

// -----

// free_on_device: a constraint of neither end lets a copy stand between two devices.
// CHECK-LABEL: func.func @free
// CHECK-NEXT:    [[S:%\d+]] = graph.relu %a {graph.device = "npu"}
// CHECK-NEXT:    [[H:%\d+]] = graph.device_copy [[S]] {src = "npu", dst = "dsp"
// CHECK-NEXT:    graph.exp [[H]] {graph.device = "dsp"}
func.func @free(%a: tensor<5x7xf32>) -> tensor<5x7xf32> {
  %0 = graph.on_device %a {device = "npu", constrain_result = true} : tensor<5x7xf32>
  %1 = graph.relu %0 : tensor<5x7xf32>
  %2 = graph.on_device %1 {device = "npu", constrain_body = false} : tensor<5x7xf32>
  %3 = graph.exp %2 : tensor<5x7xf32>
  %4 = graph.on_device %3 {device = "dsp", constrain_result = true} : tensor<5x7xf32>
  return %4 : tensor<5x7xf32>
}

// -----

// A weight is on every device that reads it, and is never copied.
// CHECK-LABEL: func.func @weights
// CHECK-NEXT:    [[N:%\w+]] = graph.param "w" {graph.device = "npu"}
// CHECK-NEXT:    [[C:%\w+]] = graph.param "w" {graph.device = "cpu"}
// CHECK:         graph.dense {{.*}}, [[N]] {graph.device = "npu"}
// CHECK:         graph.dense {{.*}}, [[C]] {graph.device = "cpu"}
func.func @weights(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %w = graph.param "w" : tensor<4x4xf32>
  %0 = graph.dense %a, %w : tensor<4x4xf32>
  %1 = graph.on_device %0 {device = "npu"} : tensor<4x4xf32>
  %2 = graph.dense %1, %w : tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// -----

// conditional: control flow is on the host, the ops in its regions are where they are put.
// CHECK-LABEL: func.func @conditional
// CHECK:         graph.if
// CHECK-NEXT:    ^{{.*}}(%{{.*}}: tensor<4xf32>):
// CHECK-NEXT:      graph.device_copy {{.*}}src = "cpu", dst = "npu"
// CHECK-NEXT:      graph.neg {{.*}}graph.device = "npu"
// CHECK-NEXT:      graph.device_copy {{.*}}src = "npu", dst = "cpu"
// CHECK-NEXT:      graph.yield
func.func @conditional(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.if %c : tensor<i1> reads(%x : tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>):
    %1 = graph.on_device %a {device = "cpu"} : tensor<4xf32>
    %2 = graph.neg %1 : tensor<4xf32>
    %3 = graph.on_device %2 {device = "npu"} : tensor<4xf32>
    graph.yield %3 : tensor<4xf32>
  } else {
  ^bb0(%a: tensor<4xf32>):
    graph.yield %a : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
