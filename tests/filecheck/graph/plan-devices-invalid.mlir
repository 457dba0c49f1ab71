// RUN: mlc-opt %s --split-input-file --verify-diagnostics -p 'graph-plan-devices{devices=cpu+npu}'

func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.on_device %a {device = "npu", constrain_result = true} : tensor<4xf32>
  %1 = graph.on_device %b {device = "cpu", constrain_result = true} : tensor<4xf32>
  // expected-error @below {{expected the operands and results of graph.add on one device, but graph.on_device of %a demands 'npu' and graph.on_device of %b demands 'cpu'; a graph.on_device between them, with a free result, allows a copy}}
  %2 = graph.add %0, %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected a device of the program (cpu, npu), but got 'npv'; did you mean 'npu'?}}
  %0 = graph.on_device %a {device = "npv"} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected the name of a device, but got ''}}
  %0 = graph.on_device %a {device = ""} : tensor<4xf32>
  return %0 : tensor<4xf32>
}
