"""ATen ops that move, index and multiply, compiled, beside eager PyTorch."""

import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch frontend need torch")

from eager import run_cases  # noqa: E402
from torch.nn import functional as F  # noqa: E402


def rand(*shape):
    return torch.rand(*shape) * 4 - 2


SHAPES = {
    "view": lambda x: x.view(6, 20),
    "flatten": lambda x: x.flatten(1),
    "permute": lambda x: x.permute(3, 0, 2, 1),
    "transpose": lambda x: x.transpose(-1, 1),
    "unsqueeze": lambda x: x.unsqueeze(2),
    "squeeze": lambda x: x[:1].squeeze(),
    "expand": lambda x: x[:, :1].expand(2, 7, 4, 5),
    "slice": lambda x: x[:, 1:, ::2, -3:-1],
    "select": lambda x: x[1, -1],
    "cat": lambda x: torch.cat([x, x + 1], 2),
    "stack": lambda x: torch.stack([x, -x], 1),
    "split": lambda x: x.split(2, 3),
    "chunk": lambda x: x.chunk(2, 2),
    "unbind": lambda x: x.unbind(0),
    "repeat": lambda x: x.repeat(1, 2, 1, 3),
    "tile": lambda x: x.tile(2, 1),
    "flip": lambda x: x.flip(1, 3),
    "roll": lambda x: x.roll((1, -2), (2, 3)),
    "roll_flat": lambda x: x.roll(5),
    "pad": lambda x: F.pad(x, (1, 2, 0, 3), value=0.5),
    "crop": lambda x: F.pad(x, (-1, 0, 2, -1)),
    "reflect": lambda x: F.pad(x, (2, 1, 1, 2), "reflect"),
    "replicate": lambda x: F.pad(x, (2, 1, 1, 2), "replicate"),
    "circular": lambda x: F.pad(x, (2, 1, 1, 2), "circular"),
    "tril": lambda x: x.tril(1),
    "triu": lambda x: x.triu(-1),
    "diagonal": lambda x: x.diagonal(1, 2, 3),
    "diagonal_put": lambda x: x.diagonal_scatter(x[:, :, 0, :4], -1 + 1, 2, 3),
    "diagonal_below": lambda x: x.diagonal_scatter(x[0, 0, 0, :3].expand(2, 5, 3), 0, 1, 2),
    "diagonal_fill": lambda x: x[0, 0].clone().fill_diagonal_(2.0),
    "strided_put": lambda x: x.as_strided_scatter(x[0, 0, :2, :3], (2, 3), (7, 2), 1),
    "bits": lambda x: (x.view(torch.int32) & 0x7FFFFFFF).view(torch.float32),
    "bits_narrow": lambda x: x.bfloat16().view(torch.int16),
    "unfold": lambda x: x.unfold(3, 3, 2),
    "movedim": lambda x: x.movedim(0, 2),
    "rot90": lambda x: x.rot90(1, (2, 3)),
    "swap": lambda x: x.mT,
    "contiguous": lambda x: x.mT.contiguous().view(6, -1),
    "shuffle": lambda x: F.pixel_shuffle(x.view(1, 24, 1, 5), 2),
    "unshuffle": lambda x: F.pixel_unshuffle(x[..., :4], 2),
    "channels": lambda x: F.channel_shuffle(x[:, :2].repeat(1, 2, 1, 1), 2),
    "narrow": lambda x: x.narrow(2, 1, 2),
    "interleave": lambda x: x.repeat_interleave(2, 1),
    "windows": lambda x: x * torch.hamming_window(5) + torch.fft.fftfreq(5),
    "triangle": lambda x: x[0, 0][tuple(torch.tril_indices(4, 5))],
    "atleast": lambda x: torch.atleast_3d(x[0, 0, 0]),
    "meshgrid": lambda x: torch.meshgrid(x[0, 0, 0], x[0, 0, :, 0], indexing="ij"),
    "im2col": lambda x: F.unfold(x, (2, 3), padding=1),
    "col2im": lambda x: F.fold(F.unfold(x, 2), (4, 5), 2),
    "zeros": lambda x: torch.zeros_like(x) + torch.ones(5),
    "full": lambda x: x.new_full((3, 2), 7) + x[0, 0, 0, 0],
    "arange": lambda x: x + torch.arange(5),
    "linspace": lambda x: x * torch.linspace(0, 1, 5),
    "eye": lambda x: x @ torch.eye(5),
    "as_strided": lambda x: (x + 0).as_strided((3, 4), (2, 1), 1),
    "write": lambda x: torch.zeros(4, 5).copy_(x[0, 0]),
    "assign": lambda x: _assigned(x),
    "empty_cat": lambda x: torch.cat([torch.zeros(0), x[0, 0, 0]]),
    "hstack": lambda x: torch.hstack([x, x]),
    "diff": lambda x: torch.diff(x),
    "diag_embed": lambda x: torch.diag_embed(x[0, 0]),
}


def _assigned(x):
    y = x.clone()
    y[:, 1, ::2] = 3.0
    y[0, :, 1:3] += x[1, :, 1:3]
    return y


INDEXING = {
    "index_select": lambda x, i, m: x.index_select(1, i),
    "gather": lambda x, i, m: x.gather(1, i.view(3, 1).expand(3, 4) % 4),
    "take_along": lambda x, i, m: torch.take_along_dim(x, x.argsort(1), 1),
    "embedding": lambda x, i, m: F.embedding(i, x),
    "index": lambda x, i, m: x[i],
    "index_axis": lambda x, i, m: x[:, i],
    "index_both": lambda x, i, m: x[i, i],
    "index_grid": lambda x, i, m: x[i[:, None], i],
    "index_apart": lambda x, i, m: x.view(4, 1, 5)[i, :, i],
    "negative": lambda x, i, m: x[-i - 1, i],
    "index_middle": lambda x, i, m: x.view(2, 2, 5, 1)[:, i % 2, i],
    "scatter": lambda x, i, m: torch.zeros(3, 5).scatter(1, i.view(3, 1), x[:3, :1]),
    "scatter_value": lambda x, i, m: x.scatter(1, i.view(1, 3), 9.0),
    "scatter_add": lambda x, i, m: x.scatter_add(0, i.view(3, 1).expand(3, 5) % 2, x[:3]),
    "scatter_reduce": lambda x, i, m: x.scatter_reduce(0, i.view(3, 1).expand(3, 5), x[:3] * 2, "amax"),
    "index_add": lambda x, i, m: x.index_add(0, i, x[:3]),
    "index_copy": lambda x, i, m: x.index_copy(1, i, x[:, :3] * 2),
    "index_fill": lambda x, i, m: x.index_fill(0, i, -1.0),
    "index_put": lambda x, i, m: x.index_put((i, i), torch.tensor(5.0)),
    "put_rows": lambda x, i, m: x.index_put((i,), x[:3] * 3),
    "accumulate": lambda x, i, m: x.index_put((i % 2, i % 2), x[0, :3], accumulate=True),
    "put_columns": lambda x, i, m: torch.index_put(x, (torch.arange(4)[:, None], i), x[:, :3] * 3),
    "mask_put": lambda x, i, m: torch.index_put(x, (m,), torch.tensor(2.0)),
    "mask_rows": lambda x, i, m: torch.index_put(x, (m[:, 0],), torch.tensor(2.0)),
    "masked_scatter": lambda x, i, m: x.masked_scatter(m, x.flip(0)),
    "select_scatter": lambda x, i, m: torch.select_scatter(x, x[:, 0], 1, 2),
    "slice_scatter": lambda x, i, m: torch.slice_scatter(x, x[:2], 0, 1, 3),
    "strided": lambda x, i, m: torch.slice_scatter(x, x[:, :2], 1, 1, 5, 2),
    "searchsorted": lambda x, i, m: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0]), right=True),
}

MASK = torch.tensor([[True, False, True], [False, True, False]])
SCATTERED = {
    "mean": lambda x, i: x.scatter_reduce(1, i, x[:, :2], "mean"),
    "mean_alone": lambda x, i: x.scatter_reduce(1, i, x[:, :2], "mean", include_self=False),
    "greatest_alone": lambda x, i: x.scatter_reduce(1, i, x[:, :2], "amax", include_self=False),
    "product_alone": lambda x, i: x.scatter_reduce(1, i, x[:, :2], "prod", include_self=False),
    "integers_alone": lambda x, i: i.scatter_reduce(1, i, i - 1, "amin", include_self=False),
    "mask": lambda x, i: x[MASK],
    "mask_put": lambda x, i: x.index_put((MASK,), x[0, 0]),
    "mask_of_an_axis": lambda x, i: x[:, MASK[0]],
    "counted": lambda x, i: x.norm(0, 1),
}
PRODUCTS = {
    "addmv": lambda x, y, v: torch.addmv(v, x[0, :4], v, alpha=2),
    "mm": lambda x, y, v: x[0] @ y[0],
    "bmm": lambda x, y, v: torch.bmm(x, y),
    "matmul_4d": lambda x, y, v: x[None] @ y,
    "mv": lambda x, y, v: x[0] @ v,
    "matmul_v": lambda x, y, v: x @ v,
    "vm": lambda x, y, v: v @ y,
    "dot": lambda x, y, v: v @ v,
    "outer": lambda x, y, v: torch.outer(v, v),
    "addmm": lambda x, y, v: torch.addmm(x[0, :, :3], x[0], y[0, :, :3], beta=0.5, alpha=2),
    "baddbmm": lambda x, y, v: torch.baddbmm(y[:, :1, :1], x, y),
    "einsum": lambda x, y, v: torch.einsum("bij,bjk->bki", x, y),
    "einsum_diag": lambda x, y, v: torch.einsum("bii->bi", x[:, :4, :4]),
    "einsum_three": lambda x, y, v: torch.einsum("bij,bjk,j->ik", x, y, v),
    "einsum_dots": lambda x, y, v: torch.einsum("...ij,j->...i", x, v),
    "tensordot": lambda x, y, v: torch.tensordot(x, y, ([0, 2], [0, 1])),
    "linear": lambda x, y, v: F.linear(x, y[0].T, None),
    "linear_v": lambda x, y, v: F.linear(v, x[0], x[1, :, 0]),
    "kron": lambda x, y, v: torch.kron(v, v),
    "cdist": lambda x, y, v: torch.cdist(x, y.mT),
    "trace": lambda x, y, v: torch.trace(x[0, :4, :4]),
    "linear_3d": lambda x, y, v: F.linear(x, y[0].T, y[0, 0]),
}


def test_shapes():
    run_cases(SHAPES, (rand(2, 3, 4, 5),))


def test_indexing():
    x = torch.randn(4, 5)
    run_cases(
        INDEXING,
        (
            x,
            torch.tensor([2, 0, 3]),
            x > 0.2,
        ),
    )


def test_scattered_means_and_masks_that_are_known():
    run_cases(SCATTERED, (rand(2, 3), torch.tensor([[0, 1], [1, 1]])))


def test_products():
    run_cases(
        PRODUCTS,
        (
            rand(2, 6, 4),
            rand(2, 4, 5),
            rand(4),
        ),
    )
