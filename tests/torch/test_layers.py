"""Layers of neural networks, compiled, beside eager PyTorch."""

import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch frontend need torch")

from eager import run_cases, run_module  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

CONVOLUTIONS = {
    "plain": nn.Conv2d(6, 8, 3, padding=1),
    "strided": nn.Conv2d(6, 5, (3, 2), (2, 1), bias=False),
    "grouped": nn.Conv2d(6, 12, 3, groups=3, padding=(0, 2)),
    "depthwise": nn.Conv2d(6, 6, 5, groups=6, padding="same"),
    "dilated": nn.Conv2d(6, 4, 3, dilation=2, padding="valid"),
    "reflected": nn.Conv2d(6, 4, 3, padding=1, padding_mode="reflect"),
    "transposed": nn.ConvTranspose2d(6, 4, 3, 2, 1, output_padding=1),
    "transposed_grouped": nn.ConvTranspose2d(6, 9, 2, groups=3, dilation=2),
}


def test_convolutions_of_pictures():
    run_cases({}, (torch.randn(2, 6, 9, 8),), CONVOLUTIONS)


def test_convolutions_of_one_and_three_axes():
    weight, cube = torch.randn(4, 3, 2, 3, 3), torch.randn(3, 2, 2, 2, 2)
    functions = {
        "line": lambda x: F.conv1d(x.flatten(2), weight[:, :, 0, 0], dilation=2),
        "line_transposed": lambda x: F.conv_transpose1d(x.flatten(2), cube[..., 0, 0], stride=2),
        "alone": lambda x: F.conv2d(x[0, :, 0], weight[:, :, 0]),
        "volume": lambda x: F.conv3d(x, weight, stride=(1, 2, 1), padding=1),
        "volume_of_one": lambda x: F.conv3d(x[:1], weight, stride=(2, 1, 1), padding=(1, 0, 2), dilation=(2, 1, 1)),
        "volume_transposed": lambda x: F.conv_transpose3d(x, cube, stride=2),
    }
    run_cases(functions, (torch.randn(2, 3, 4, 5, 6),))


def test_normalisation():
    modules = {
        "batch": nn.BatchNorm2d(6),
        "plain_batch": nn.BatchNorm2d(6, affine=False),
        "batch_of_inputs": nn.BatchNorm2d(6, track_running_stats=False),
        "group": nn.GroupNorm(3, 6),
        "instance": nn.InstanceNorm2d(6, affine=True),
        "tracked_instance": nn.InstanceNorm2d(6, track_running_stats=True),
        "layer": nn.LayerNorm((5, 4)),
        "layer_without_bias": nn.LayerNorm(4, bias=False),
        "rms": nn.RMSNorm(4),
        "local_response": nn.LocalResponseNorm(3),
    }
    for module in modules.values():
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            if tensor.is_floating_point():
                nn.init.uniform_(tensor, 0.5 if name.endswith("var") else -1, 2)
    functions = {"rows": lambda x: F.batch_norm(x[0, :, 0], _row(4), _row(4) + 1)}
    run_cases(functions, (rand(2, 6, 5, 4),), modules)


def _row(size):
    return torch.arange(size) / size


def rand(*shape):
    return torch.rand(*shape) * 4 - 2


POOLS = {
    "max": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max_ceil": lambda x: F.max_pool2d(x, 2, ceil_mode=True),
    "max_dilated": lambda x: F.max_pool2d(x, 2, dilation=2),
    "max_places": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
    "max_line": lambda x: F.max_pool1d(x[:, :, 0], 3),
    "max_volume": lambda x: F.max_pool3d(x, 2),
    "average": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "average_inside": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "average_ceil": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
    "average_divisor": lambda x: F.avg_pool2d(x, 2, divisor_override=3),
    "average_line": lambda x: F.avg_pool1d(x[:, 0], 4),
    "average_volume": lambda x: F.avg_pool3d(x, (2, 3, 2)),
    "global": lambda x: F.adaptive_avg_pool2d(x, 1),
    "adaptive_equal": lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (4, 5)),
    "adaptive_line": lambda x: F.adaptive_avg_pool1d(x[0], 3),
    "adaptive_volume": lambda x: F.adaptive_avg_pool3d(x, (2, 4, 3)),
    "adaptive_max": lambda x: F.adaptive_max_pool2d(x, (4, 5)),
    "adaptive_max_line": lambda x: F.adaptive_max_pool1d(x[0], 3),
    "lp": lambda x: F.lp_pool2d(x.abs(), 2, 3),
}


def test_pools():
    run_cases(POOLS, (torch.randn(2, 3, 9, 8),))


RESIZES = {
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "nearest_size": lambda x: F.interpolate(x, (7, 3)),
    "exact": lambda x: F.interpolate(x, (7, 3), mode="nearest-exact"),
    "linear": lambda x: F.interpolate(x, (9, 4), mode="bilinear"),
    "linear_scale": lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"),
    "corners": lambda x: F.interpolate(x, (9, 4), mode="bilinear", align_corners=True),
    "cubic": lambda x: F.interpolate(x, (9, 4), mode="bicubic"),
    "smooth": lambda x: F.interpolate(x, (3, 4), mode="bilinear", antialias=True),
    "line": lambda x: F.interpolate(x[:, 0], 9, mode="linear"),
    "volume": lambda x: F.interpolate(x[None], (4, 7, 3), mode="trilinear"),
    "grid": lambda x: F.grid_sample(x, _grid(), align_corners=False),
    "grid_border": lambda x: F.grid_sample(x, _grid(), padding_mode="border", align_corners=True),
    "grid_nearest": lambda x: F.grid_sample(x, _grid(), mode="nearest", align_corners=False),
    "affine": lambda x: F.grid_sample(x, F.affine_grid(torch.eye(2, 3).expand(2, 2, 3) * 0.8, [2, 3, 4, 4])),
}


def _grid():
    steps = torch.linspace(-1.13, 1.17, 4)
    return torch.stack(torch.meshgrid(steps, steps, indexing="ij"), -1).expand(2, 4, 4, 2)


def test_resizes():
    run_cases(RESIZES, (torch.randn(2, 3, 5, 6),))


def test_recurrent_layers():
    modules = {
        "lstm": nn.LSTM(6, 5, batch_first=True),
        "lstm_both": nn.LSTM(6, 5, num_layers=2, bidirectional=True),
        "lstm_without_bias": nn.LSTM(6, 5, bias=False),
        "gru": nn.GRU(6, 5, num_layers=2, batch_first=True),
        "gru_both": nn.GRU(6, 5, bidirectional=True),
        "rnn": nn.RNN(6, 5),
        "rnn_relu": nn.RNN(6, 5, nonlinearity="relu"),
    }
    run_cases({}, (torch.randn(2, 3, 6),), modules)


class _FromStates(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru = nn.LSTM(6, 5), nn.GRU(6, 5)

    def forward(self, x, h, c):
        return self.lstm(x, (h, c)), self.gru(x, h)


def test_recurrent_layers_go_on_from_states():
    run_module(_FromStates(), (torch.randn(4, 2, 6), torch.randn(1, 2, 5), torch.randn(1, 2, 5)))


ATTENTION = {
    "plain": lambda q, k, m: F.scaled_dot_product_attention(q, k, k),
    "causal": lambda q, k, m: F.scaled_dot_product_attention(k, k, k, is_causal=True),
    "scale": lambda q, k, m: F.scaled_dot_product_attention(q, k, k, scale=0.3),
    "bool": lambda q, k, m: F.scaled_dot_product_attention(q, k, k, attn_mask=m),
    "float": lambda q, k, m: F.scaled_dot_product_attention(q, k, k, attn_mask=_added(m)),
    "constant": lambda q, k, m: F.scaled_dot_product_attention(q, k, k, attn_mask=torch.ones(4, 6).tril(1).bool()),
    "grouped": lambda q, k, m: F.scaled_dot_product_attention(q, k[:, :2], k[:, :2], enable_gqa=True),
    "grouped_mask": lambda q, k, m: F.scaled_dot_product_attention(q, k[:, :2], k[:, :2], attn_mask=m, enable_gqa=True),
}


def _added(mask):
    return torch.zeros(4, 6).masked_fill(~mask, -torch.inf)


def test_attention_also_of_rows_that_see_nothing():
    mask = torch.rand(4, 6) > 0.4
    mask[2] = False
    run_cases(ATTENTION, (torch.randn(2, 4, 4, 8), torch.randn(2, 4, 6, 8), mask))


def test_multi_head_attention_and_transformer_layers():
    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
            self.encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
            self.decoder = nn.TransformerDecoderLayer(8, 2, 16, activation="gelu", norm_first=True)

        def forward(self, x, memory, padding):
            mixed, weights = self.attention(x, memory, memory, key_padding_mask=padding)
            return mixed, weights, self.encoder(x), self.decoder(x, memory)

    padding = torch.tensor([[False, False, True], [False, True, True]])
    run_module(Layers(), (torch.randn(2, 3, 8), torch.randn(2, 3, 8), padding))
