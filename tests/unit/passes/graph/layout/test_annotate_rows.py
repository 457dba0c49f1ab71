"""graph-annotate-rows: threads take the same rows in kernels between convolutions, and compute the same values."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_graphs import Small, mismatches, onnxruntime_results

import mlc
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.compile import load_model
from mlc.driver.options import Options


class Network:
    """A network of one picture."""

    def __init__(self, batch, channels, size):
        self.small, self.channels = Small(), channels
        self.last = self.small.x(batch, channels, size, size)

    def conv(self, outputs, window=1, stride=1, groups=1):
        w = self.small.w(outputs, self.channels // groups, window, window)
        # Sums of every length are about 1, as in trained networks: a sigmoid of sums in the hundreds would
        # turn their rounding into differences of its values.
        self.small.weights[w] /= np.sqrt(self.channels // groups * window * window, dtype=np.float32)
        pads = [window // 2] * 4
        self.last = self.small.op("Conv", self.last, w, pads=pads, strides=[stride] * 2, group=groups)
        self.channels = outputs
        return self

    def depthwise(self, window, stride=1):
        return self.conv(self.channels, window, stride, self.channels)

    def pool(self, kind):
        self.last = self.small.op(kind, self.last, kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4)
        return self

    def gate(self):
        """The picture times a gate for each channel, computed from the means of the channels."""
        picture, self.last = self.last, self.small.op("GlobalAveragePool", self.last)
        self.conv(self.channels)
        self.last = self.small.op("Mul", picture, self.small.op("Sigmoid", self.last))
        return self

    def done(self):
        self.small.out(self.last)
        return self.small


@st.composite
def networks(draw):
    """A convolution, kernels that may deal out rows or channels, another convolution."""
    batch, size = draw(st.sampled_from([1, 1, 1, 2, 3])), draw(st.integers(4, 23))
    network = Network(batch, draw(st.sampled_from([8, 16, 24])), size).conv(draw(st.sampled_from([16, 32, 48, 80])))
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["window", "window", "gate", "MaxPool", "AveragePool", "groups"]))
        if kind == "window":
            network.depthwise(draw(st.sampled_from([3, 5, 7])), draw(st.sampled_from([1, 1, 2])))
        elif kind == "gate":
            network.gate()
        elif kind == "groups":
            network.conv(network.channels, 3, groups=2)
        else:
            network.pool(kind)
    return network.conv(draw(st.sampled_from([16, 24]))).done()


@settings(max_examples=40)
@given(networks(), st.sampled_from([2, 3]), st.sampled_from(["native", "x86-64-v3"]))
def test_values_are_those_of_onnxruntime(small, threads, target):
    exe = mlc.compile(small.proto(), threads=threads, target=target, cache=False)
    assert mismatches(small, exe, onnxruntime_results(small)) == []


@pytest.mark.parametrize(("rows", "threads"), [(6, 4), (5, 4), (4, 3), (7, 2), (7, 5)])
def test_means_of_rows_that_threads_do_not_divide(rows, threads):
    """Some threads have fewer rows, or none."""
    small = Network(1, 16, rows).conv(960).gate().conv(16).done()
    exe = mlc.compile(small.proto(), threads=threads, cache=False)
    assert mismatches(small, exe, onnxruntime_results(small)) == []


def kernels_by_rows(tmp_path, network, threads=2):
    """The kernels of a network whose threads take rows, and the others, by the names of their ops."""
    options = Options(target="znver4", threads=threads, keep=frozenset(["te"]))
    compilation = Compilation(load_model(network.done().proto(), {}), options)
    compilation.write(tmp_path)
    heads = re.findall(r"te\.func @(\w+)_\w{8}\(.*", compilation.texts["te"])
    rows = re.findall(r"te\.func @(\w+)_\w{8}\(.*mlc\.deals_rows", compilation.texts["te"])
    return sorted(rows), sorted(set(heads) - set(rows))


@pytest.mark.parametrize("size", [8, 21])
def test_gates_between_convolutions(tmp_path, size):
    rows, others = kernels_by_rows(tmp_path, Network(1, 32, size).conv(48).depthwise(3).gate().conv(32))
    assert rows == ["conv2d", "conv2d", "mean", "multiply"]
    assert "layout_transform" in others


def test_pools_keep_their_taps_together(tmp_path):
    """A thread takes all taps of a window, of its rows; partial results are for means alone."""
    network = Network(1, 32, 28).conv(48).pool("MaxPool").pool("AveragePool").conv(32)
    options = Options(target="znver4", threads=2, keep=frozenset(["te"]))
    compilation = Compilation(load_model(network.done().proto(), {}), options)
    compilation.write(tmp_path)
    assert compilation.texts["te"].count("mlc.deals_rows") >= 3
    assert "sched.rfactor" not in compilation.texts["te"]


def test_windows_that_leave_out_padding_deal_out_channels(tmp_path):
    rows, others = kernels_by_rows(tmp_path, Network(1, 32, 12).conv(48).depthwise(5).gate().conv(32))
    assert rows == []
    assert {"mean", "multiply"} <= {*others}


def test_a_window_alone_deals_out_channels_and_one_thread_nothing(tmp_path):
    assert kernels_by_rows(tmp_path, Network(1, 32, 12).depthwise(3))[0] == []
    assert kernels_by_rows(tmp_path, Network(1, 32, 12).conv(48).depthwise(3).conv(32), threads=1)[0] == []
