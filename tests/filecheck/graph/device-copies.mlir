// RUN: mlc-opt %s -p 'graph-plan-devices,graph-annotate-memory-scope{scopes=npu:sram},graph-fuse-ops,graph-lower-device-copies{scopes=npu:sram}' | filecheck %s
// RUN: mlc-opt %s -p 'graph-plan-devices,graph-annotate-memory-scope,graph-fuse-ops,graph-lower-device-copies' | filecheck %s --check-prefix=SHARED
// RUN: not mlc-opt %s -p 'graph-annotate-memory-scope{scopes=npu}' 2>&1 | filecheck %s --check-prefix=WRONG

// Between two memories a copy is a kernel, in one it is nothing; ops of two devices are in no kernel together.
// CHECK-LABEL: func.func @main(%a: tensor<4xf32> {graph.device = "cpu", graph.scope = "global"})
// CHECK-NEXT:    [[A:%\d+]] = graph.fused "device_copy" ({{.*}} = %a : tensor<4xf32>)
// CHECK-NEXT:      graph.transpose {{.*}}graph.device = "npu", graph.scope = "sram"
// CHECK:         [[R:%\d+]] = graph.fused "exp_relu" ({{.*}} = [[A]] : tensor<4xf32>)
// CHECK:         [[H:%\d+]] = graph.fused "device_copy" ({{.*}} = [[R]] : tensor<4xf32>)
// CHECK-NEXT:      graph.transpose {{.*}}graph.device = "cpu", graph.scope = "global"
// CHECK:         graph.neg [[H]]
// SHARED-LABEL: func.func @main
// SHARED-NEXT:    [[R:%\d+]] = graph.fused "exp_relu" ({{.*}} = %a : tensor<4xf32>)
// SHARED:         graph.neg [[R]] {graph.device = "cpu", graph.scope = "global"}
// SHARED-NOT:     graph.device_copy
// WRONG:       expected scopes like npu:sram+dsp:vtcm, but got 'npu'
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.exp %a : tensor<4xf32>
  %1 = graph.relu %0 : tensor<4xf32>
  %2 = graph.on_device %1 {device = "npu"} : tensor<4xf32>
  %3 = graph.neg %2 : tensor<4xf32>
  return %3 : tensor<4xf32>
}
