// One layer of a perceptron: dense, bias, relu. docs/levels.md walks it through every level.
func.func @main(%x: tensor<1x784xf32>, %w: tensor<256x784xf32>, %b: tensor<256xf32>) -> tensor<1x256xf32> {
  %0 = graph.dense %x, %w : (tensor<1x784xf32>, tensor<256x784xf32>) -> tensor<1x256xf32>
  %1 = graph.bias_add %0, %b {axis = 1} : (tensor<1x256xf32>, tensor<256xf32>) -> tensor<1x256xf32>
  %2 = graph.relu %1 : tensor<1x256xf32>
  return %2 : tensor<1x256xf32>
}
