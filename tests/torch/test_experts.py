"""Mixtures of experts: their ops, compiled, beside eager PyTorch, and what becomes of the experts' products."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch frontend need torch")

from eager import run_cases, run_module  # noqa: E402
from torch import nn  # noqa: E402

import mlc  # noqa: E402
from mlc.support.errors import UserError  # noqa: E402


@torch.library.custom_op("transformers::grouped_mm_fallback", mutates_args=())
def grouped(input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    """The op of that name of the package transformers, which need not be installed."""
    output = torch.zeros(input.shape[0], weight.shape[2])
    start = 0
    for group, end in enumerate(offs.tolist()):
        output[start:end] = input[start:end] @ weight[group]
        start = end
    return output


@grouped.register_fake
def _(input, weight, offs):
    return input.new_empty(input.shape[0], weight.shape[2])


HISTOGRAMS = {
    "edges": lambda x: torch.histc(x.round(), bins=4, min=0, max=3),
    "halves": lambda x: torch.histc(x, bins=7, min=-1, max=2.5),
    "of_matrix": lambda x: torch.histc(x.view(5, 8), bins=3, min=-2, max=4),
}


def test_histograms():
    run_cases(HISTOGRAMS, [torch.linspace(-2, 4, 40)])


def test_a_histogram_without_a_range():
    class Counts(nn.Module):
        def forward(self, x):
            return torch.histc(x, bins=4)

    exported = torch.export.export(Counts(), (torch.rand(8),))
    with pytest.raises(UserError, match="expected a range from min to max, but got none"):
        mlc.compile(exported)


@pytest.mark.parametrize("ends", [[3, 3, 7, 10], [0, 0, 10, 10], [1, 2, 3, 4]])
def test_products_of_groups(ends):
    class Product(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 6, 5, generator=torch.Generator().manual_seed(0)))

        def forward(self, x, ends):
            return torch.ops.transformers.grouped_mm_fallback(x, self.weight, ends)

    module, inputs = Product(), (torch.randn(10, 6), torch.tensor(ends, dtype=torch.int32))
    exe = mlc.compile(torch.export.export(module, inputs), cache=False)
    (y,) = exe({"x": inputs[0].numpy(), "ends": inputs[1].numpy()}).values()
    with torch.no_grad():
        np.testing.assert_allclose(y, module(*inputs).numpy(), rtol=1e-5, atol=1e-5)


def test_torchs_own_product_of_groups():
    """It takes bf16 alone on a CPU."""

    class Product(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 16, 8, generator=torch.Generator().manual_seed(0)).bfloat16())

        def forward(self, x, ends):
            return torch._grouped_mm(x, self.weight, offs=ends)

    run_module(Product(), (torch.randn(10, 16).bfloat16(), torch.tensor([3, 3, 7, 10], dtype=torch.int32)), rtol=0.02)


class Mixture(nn.Module):
    """Two of several experts for each token, each a product, a gate, and a product, as transformers computes them."""

    def __init__(self, experts, width=16, inner=24, grouped=True):
        super().__init__()
        torch.manual_seed(experts)
        self.router = nn.Linear(width, experts)
        self.up = nn.Parameter(torch.randn(experts, 2 * inner, width) / 4)
        self.down = nn.Parameter(torch.randn(experts, width, inner) / 4)
        self.experts, self.grouped = experts, grouped

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(2)
        flat = chosen.reshape(-1)
        if self.grouped:
            flat, order = torch.sort(flat)
            counts = torch.histc(flat.float(), bins=self.experts, min=0, max=self.experts - 1)
            ends = counts.cumsum(0, dtype=torch.int32)
            rows = torch.ops.transformers.grouped_mm_fallback(x[order // 2], self.up.transpose(1, 2), ends)
            gate, up = rows.chunk(2, -1)
            rows = nn.functional.silu(gate) * up
            rows = torch.ops.transformers.grouped_mm_fallback(rows, self.down.transpose(1, 2), ends)
            rows = rows[torch.argsort(order)]
        else:
            rows = torch.bmm(self.up[flat], x.repeat_interleave(2, 0).unsqueeze(-1)).squeeze(-1)
            gate, up = rows.chunk(2, -1)
            rows = torch.bmm(self.down[flat], (nn.functional.silu(gate) * up).unsqueeze(-1)).squeeze(-1)
        return (rows * weights.reshape(-1, 1)).view(-1, 2, x.shape[1]).sum(1)


@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize(("experts", "tokens", "together"), [(4, 40, True), (24, 3, False)])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_mixture(experts, tokens, together, grouped, threads):
    module, x = Mixture(experts, grouped=grouped).eval(), torch.randn(tokens, 16)
    with torch.no_grad():
        expected = module(x).numpy()
        exe = mlc.compile(torch.export.export(module, (x,)), threads=threads, cache=False)
    (y,) = exe({"x": x.numpy()}).values()
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
    products = [row.kernel for row in exe.profile({"x": x.numpy()}).kernels if "batch_matmul" in row.kernel]
    assert bool(products) != together
