// RUN: mlc-opt %s -p graph-remove-unused-functions | filecheck %s
// RUN: mlc-opt %s -p "graph-remove-unused-functions{entries=other}" | filecheck %s --check-prefix=OTHER
// RUN: mlc-opt %s -p "graph-remove-unused-functions{entries=othr}" 2>&1 | filecheck %s --check-prefix=WRONG; true

// WRONG: expected entries to be functions of the module, but got 'othr'; did you mean 'other'?

// CHECK-LABEL: func.func @main
// CHECK:       func.func private @near
// CHECK:       func.func private @far
// CHECK-NOT:   @dead
// CHECK:       func.func @other
// OTHER-NOT:   @main
// OTHER-NOT:   @near
// OTHER:       func.func @other
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.call @near(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @near(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.call @far(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @far(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.relu %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @dead(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.call @dead(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @other(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
