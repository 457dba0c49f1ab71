// RUN: mlc-opt %s -p graph-label-ops | filecheck %s

// Names do not count, attributes do.
// CHECK:       func.func @first({{.*}} attributes {graph.hash = "[[H:[0-9a-f]*]]"} {
// CHECK:       func.func @second({{.*}} attributes {graph.hash = "[[H]]"} {
// CHECK-NOT:   [[H]]
// CHECK:       func.func @third
func.func @first(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.clip %x {min = 0.0} : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @second(%other: tensor<4xf32>) -> tensor<4xf32> {
  %named = graph.clip %other {min = 0.0} : tensor<4xf32>
  return %named : tensor<4xf32>
}
func.func @third(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.clip %x {min = 1.0} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK:       func.func @layouts
// CHECK-SAME:  graph.layouts = ["layout_transform.src=NCHW", "layout_transform.dst=NCHW4c", "max_pool2d.layout=NCHW4c"]
func.func @layouts(%x: tensor<1x8x4x4xf32>) -> tensor<1x2x4x4x4xf32> {
  %0 = graph.layout_transform %x {src = "NCHW", dst = "NCHW4c"} : (tensor<1x8x4x4xf32>) -> tensor<1x2x4x4x4xf32>
  %1 = graph.max_pool2d %0 {pool_size = [1, 1], layout = "NCHW4c"} : (tensor<1x2x4x4x4xf32>) -> tensor<1x2x4x4x4xf32>
  return %1 : tensor<1x2x4x4x4xf32>
}
