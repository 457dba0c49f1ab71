"""
Winograd's convolution F(m x m, 3 x 3): fewer multiplications, by transforms of tiles.

Y = A^T [ (G w G^T) * (B^T d B) ] A, summed over the input channels (Lavin and Gray, "Fast algorithms for convolutional
neural networks", CVPR 2016).
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph.base import OPAQUE, OUT_FUSABLE, AttrValue, GraphOp, Sample
from mlc.dialects.graph.dims import Dim
from mlc.dialects.graph.op_attributes import Int, Ints
from mlc.dialects.graph.types import Array, Tensor, shape_of, static_shape, tensor

Matrix = list[list[float]]

# m -> (B^T, G, A^T) for tiles of m x m outputs, from the points 0, 1, -1 (and 2, -2)
MATRICES: dict[int, tuple[Matrix, Matrix, Matrix]] = {
    2: (
        [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]],
        [[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]],
        [[1, 1, 1, 0], [0, 1, -1, -1]],
    ),
    4: (
        [
            [4, 0, -5, 0, 1, 0],
            [0, -4, -4, 1, 1, 0],
            [0, 4, -4, -1, 1, 0],
            [0, -2, -1, 2, 1, 0],
            [0, 2, -1, -2, 1, 0],
            [0, 4, 0, -5, 0, 1],
        ],
        [
            [1 / 4, 0, 0],
            [-1 / 6, -1 / 6, -1 / 6],
            [-1 / 6, 1 / 6, -1 / 6],
            [1 / 24, 1 / 12, 1 / 6],
            [1 / 24, -1 / 12, 1 / 6],
            [0, 0, 1],
        ],
        [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]],
    ),
}
# The error of F(m, 3) relative to that of direct convolution, measured on normal data with 64 to 512 channels.
ERROR_GROWTH = {2: 2.0, 4: 12.0}


def tiles(size: Dim, m: int) -> Dim:
    """The number of tiles of m outputs that cover an axis."""
    return (size + (m - 1)) // m


def transformed_weight(np: ModuleType, w: Array, g: Array, block_in: int, block_out: int) -> Array:
    """U = G w G^T of a weight in OIHW, blocked: `[a, b, O/o, I/i, i, o]`."""
    o, i = w.shape[:2]
    flat = w.reshape(o * i, -1).astype(np.float64) @ np.kron(g, g).T.astype(np.float64)
    u = flat.astype(w.dtype).T.reshape(len(g), len(g), o // block_out, block_out, -1, block_in)
    return u.transpose(0, 1, 2, 4, 5, 3)


class WinogradWeightOp(GraphOp):
    """
    The weights of a Winograd convolution, U = G w G^T, blocked: `[a, b, O/o, I/i, i, o]`.

    `graph.winograd_weight %w, %g {block_in = 4, block_out = 4} :
    (tensor<8x4x3x3xf32>, tensor<4x3xf32>) -> tensor<4x4x2x1x4x4xf32>`
    """

    name = "graph.winograd_weight"
    kind = OPAQUE
    layout_rule = "fixed"
    arity = (2, 2)
    tolerance = 4.0
    block_in = Int(16)
    block_out = Int(16)

    def infer_types(self) -> list[Tensor]:
        w, g = self.input_types
        o, i, *window = shape_of(w)
        t, taps = shape_of(g)
        if window != [taps, taps]:
            raise VerifyException(f"expected a kernel of {taps} x {taps} taps as the matrix has columns, but got {w}")
        if not isinstance(o, int) or not isinstance(i, int) or o % self.block_out or i % self.block_in:
            raise VerifyException(f"expected channels that the blocks {self.block_in} and {self.block_out} divide: {w}")
        shape = (t, t, o // self.block_out, i // self.block_in, self.block_in, self.block_out)
        return [tensor(shape, w.element_type)]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        w, g = arrays
        return (np.ascontiguousarray(transformed_weight(np, w, g, self.block_in, self.block_out)),)

    def reduction_length(self) -> int:
        return 9

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample((tensor((8, 4, 3, 3)), tensor((4, 3))), {"block_in": 4, "block_out": 4})]


class Conv2dWinogradOp(GraphOp):
    """
    A 3 x 3 convolution of stride 1 in the layout NCHW[x]c, from transformed weights.

    `graph.conv2d_winograd %x, %u {tile = 4, block = 8} :
    (tensor<1x4x8x8x16xf32>, tensor<6x6x1x4x16x24xf32>) -> tensor<1x3x8x8x8xf32>`

    %u is the result of graph.winograd_weight for tiles of `tile` x `tile` outputs. The result's blocks hold `block`
    channels (0: as many as the blocks of %u). With `groups`, the blocks of the image and of the result are cut into so
    many equal parts, and each part of the result is computed from that of the image.
    """

    name = "graph.conv2d_winograd"
    kind = OUT_FUSABLE
    layout_rule = "fixed"
    arity = (2, 2)
    tolerance = 30.0
    tile = Int(4)
    block = Int(0)
    padding = Ints((1, 1, 1, 1))
    groups = Int(1)

    def infer_types(self) -> list[Tensor]:
        x, u = (shape_of(t) for t in self.input_types)
        if self.tile not in MATRICES:
            raise VerifyException(f"expected a tile of {' or '.join(map(str, MATRICES))} outputs, but got {self.tile}")
        if len(u) != 6 or list(u[:2]) != [self.tile + 2] * 2:
            raise VerifyException(f"expected weights of {self.tile + 2} x {self.tile + 2} points, but got {u}")
        if self.groups < 1 or not isinstance(u[2], int) or u[2] % self.groups:
            raise VerifyException(f"expected groups that divide {u[2]} blocks of channels, but got {self.groups}")
        if len(x) != 5 or list(x[1::3]) != [u[3] * self.groups, u[4]]:
            of = f", {self.groups} times" if self.groups > 1 else ""
            raise VerifyException(f"expected an image in the weights' blocks of {u[3:5]} channels{of}, but got {x}")
        channels, block = u[2] * u[5], self.block or u[5]
        if not isinstance(channels, int) or not isinstance(block, int) or channels % block:
            raise VerifyException(f"expected a block that divides {channels} channels, but got {block}")
        height = x[2] + self.padding[0] + self.padding[2] - 2
        width = x[3] + self.padding[1] + self.padding[3] - 2
        return [tensor((x[0], channels // block, height, width, block), self.input_types[0].element_type)]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        x, u = arrays
        bt, _, at = (np.array(matrix, x.dtype) for matrix in MATRICES[self.tile])
        n, _, height, width, block = static_shape(self.type)
        m, t = at.shape
        th, tw = tiles(height, m), tiles(width, m)
        top, left = self.padding[:2]
        room = np.zeros((n, x.shape[1], th * m + t - m, tw * m + t - m, x.shape[4]), x.dtype)
        rows, columns = min(x.shape[2], room.shape[2] - top), min(x.shape[3], room.shape[3] - left)
        room[:, :, top : top + rows, left : left + columns] = x[:, :, :rows, :columns]
        windows = np.lib.stride_tricks.sliding_window_view(room, (t, t), axis=(2, 3))[:, :, ::m, ::m]
        v = np.einsum("ai,bj,nchwkij->abnchwk", bt, bt, windows, optimize=True)
        apart = v.reshape(t, t, n, self.groups, -1, th, tw, v.shape[-1]), u.reshape(t, t, self.groups, -1, *u.shape[3:])
        product = np.einsum("abngchwk,abgockx->abngohwx", *apart, optimize=True)
        product = product.reshape(t, t, n, -1, th, tw, u.shape[-1])
        y = np.einsum("ra,sb,abnohwx->noxhrws", at, at, product, optimize=True)
        y = y.reshape(n, -1, block, th * m, tw * m)[:, :, :, :height, :width]
        return (np.ascontiguousarray(y.transpose(0, 1, 3, 4, 2)),)

    def reduction_length(self) -> int:
        u = shape_of(self.input_types[1])
        return u[3] * u[4] * 9 if isinstance(u[3], int) and isinstance(u[4], int) else 1

    @classmethod
    def samples(cls) -> list[Sample]:
        def one(x: tuple[int, ...], u: tuple[int, ...], tile: int, **attrs: AttrValue) -> Sample:
            return Sample((tensor(x), tensor((tile + 2, tile + 2, *u))), {"tile": tile, **attrs})

        return [
            one((1, 2, 8, 9, 4), (2, 2, 4, 4), 4),
            one((2, 1, 5, 7, 4), (1, 1, 4, 8), 2, padding=(0, 1, 2, 0)),
            one((1, 1, 5, 5, 4), (1, 1, 4, 12), 4, block=4),
            one((1, 4, 5, 6, 4), (4, 2, 4, 4), 4, groups=2),
        ]


OPS = [WinogradWeightOp, Conv2dWinogradOp]
