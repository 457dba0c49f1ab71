// RUN: mlc-opt %s -p graph-inline,graph-remove-unused-functions --split-input-file --verify-diagnostics | filecheck %s

// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %[[A:.*]] = graph.relu %x
// CHECK-NEXT:    %[[B:.*]] = graph.neg %[[A]]
// CHECK-NEXT:    %[[C:.*]] = graph.relu %[[B]]
// CHECK-NEXT:    %[[D:.*]] = graph.neg %[[C]]
// CHECK-NEXT:    %[[E:.*]] = graph.call @kept(%[[D]])
// CHECK-NEXT:    return %[[E]]
// CHECK-NOT:     @twice
// CHECK-NOT:     @once
// CHECK:         func.func private @kept
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.call @twice(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.call @kept(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @twice(%x: tensor<4xf32>) -> tensor<4xf32> attributes {graph.inline} {
  %0 = graph.call @once(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = func.call @once(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @once(%x: tensor<4xf32>) -> tensor<4xf32> attributes {graph.inline} {
  %0 = graph.relu %x : tensor<4xf32>
  %1 = graph.neg %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @kept(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.call @a(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// expected-error @+1 {{expected functions flagged graph.inline not to call themselves, but got @a -> @b -> @a}}
func.func private @a(%x: tensor<4xf32>) -> tensor<4xf32> attributes {graph.inline} {
  %0 = graph.call @b(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @b(%x: tensor<4xf32>) -> tensor<4xf32> attributes {graph.inline} {
  %0 = graph.call @a(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
