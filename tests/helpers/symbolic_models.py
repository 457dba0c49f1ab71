"""Small models of symbolic sizes as text."""

import numpy as np

POINTWISE = """
func.func @main(%x: tensor<?x70xf32, #graph.dims<[N]>>) -> tensor<?x70xf32, #graph.dims<[N]>> {
  %0 = graph.exp %x : tensor<?x70xf32, #graph.dims<[N]>>
  %1 = graph.add %0, %x : tensor<?x70xf32, #graph.dims<[N]>>
  return %1 : tensor<?x70xf32, #graph.dims<[N]>>
}
"""


SOFTMAX = """
func.func @main(%x: tensor<?x70xf32, #graph.dims<[N]>>) -> tensor<?x70xf32, #graph.dims<[N]>> {
  %0 = graph.softmax %x {axis = 1} : tensor<?x70xf32, #graph.dims<[N]>>
  return %0 : tensor<?x70xf32, #graph.dims<[N]>>
}
"""


PRODUCT = """
func.func @main(%x: tensor<?x40xf32, #graph.dims<[N]>>, %w: tensor<50x40xf32>)
    -> tensor<?x50xf32, #graph.dims<[N]>> {
  %0 = graph.dense %x, %w :
    (tensor<?x40xf32, #graph.dims<[N]>>, tensor<50x40xf32>) -> tensor<?x50xf32, #graph.dims<[N]>>
  %1 = graph.relu %0 : tensor<?x50xf32, #graph.dims<[N]>>
  return %1 : tensor<?x50xf32, #graph.dims<[N]>>
}
"""


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)
