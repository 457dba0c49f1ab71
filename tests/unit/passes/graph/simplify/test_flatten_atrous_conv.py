"""graph-flatten-atrous-conv: spelled out dilations of every kind become one convolution with the same values."""

import pytest
from graph_passes import names, optimize

ATROUS = "graph-flatten-atrous-conv"


def tensor(*sizes):
    return f"tensor<{'x'.join(map(str, sizes))}xf32>"


def atrous(
    layout="NCHW",
    size=(7, 9),
    block=(2, 3),
    pad=(2, 3, 3, 6),
    crop=(0, 1, 0, 2),
    kernel=(3, 2),
    conv=(0, 0, 0, 0),
    batch=2,
    groups=1,
    between="",
    stride=1,
):
    """A picture padded, cut into phases, convolved, put together; `pad`, `crop`: top, left, bottom, right."""
    c, o = 4, 6 if groups == 1 else 4
    plain = layout == "NCHW"

    def picture(n, channels, h, w):
        return (n, channels, h, w) if plain else (n, h, w, channels)

    def cut(n, channels, h, w):
        parts = (h, block[0], w, block[1])
        return (n, channels, *parts) if plain else (n, *parts, channels)

    (h, w), (bh, bw) = size, block
    height, width = h + pad[0] + pad[2], w + pad[1] + pad[3]
    ph, pw = height // bh, width // bw
    padding = list(conv)
    oh = (ph + padding[0] + padding[2] - kernel[0]) // stride + 1
    ow = (pw + padding[1] + padding[3] - kernel[1]) // stride + 1
    n = batch * bh * bw
    x, padded = tensor(*picture(batch, c, h, w)), tensor(*picture(batch, c, height, width))
    widths = [0, 0, 0, 0, pad[0], pad[2], pad[1], pad[3]] if plain else [0, 0, pad[0], pad[2], pad[1], pad[3], 0, 0]
    split = tensor(*cut(batch, c, ph, pw))
    out_axes, back_axes = (
        ([3, 5, 0, 1, 2, 4], [2, 3, 4, 0, 5, 1]) if plain else ([2, 4, 0, 1, 3, 5], [2, 3, 0, 4, 1, 5])
    )
    stacked, phases = tensor(bh, bw, *picture(batch, c, ph, pw)), tensor(*picture(n, c, ph, pw))
    weight, result = tensor(o, c // groups, *kernel), tensor(*picture(n, o, oh, ow))
    unstacked, joined = tensor(bh, bw, *picture(batch, o, oh, ow)), tensor(*cut(batch, o, oh, ow))
    whole = picture(batch, o, oh * bh, ow * bw)
    spatial = (2, 3) if plain else (1, 2)
    begin, end = [0] * 4, list(whole)
    for k, axis in enumerate(spatial):
        begin[axis], end[axis] = crop[k], whole[axis] - crop[k + 2]
    final = tensor(*(e - b for b, e in zip(begin, end, strict=True)))
    attrs = f'{{data_layout = "{layout}", padding = {padding}, groups = {groups}, strides = [{stride}, {stride}]}}'
    body = [
        f'%w = graph.param "w" : {weight}',
        f"%0 = graph.pad %x {{pad_width = {widths}}} : ({x}) -> {padded}",
        f"%1 = graph.reshape %0 : ({padded}) -> {split}",
        f"%2 = graph.transpose %1 {{axes = {out_axes}}} : ({split}) -> {stacked}",
        f"%3 = graph.reshape %2 : ({stacked}) -> {phases}",
        f"%4 = graph.conv2d %3, %w {attrs} : ({phases}, {weight}) -> {result}",
        between.format(type=result, axis=1 if plain else 3, c=o) if between else f"%5 = graph.relu %4 : {result}",
        f"%6 = graph.reshape %5 : ({result}) -> {unstacked}",
        f"%7 = graph.transpose %6 {{axes = {back_axes}}} : ({unstacked}) -> {joined}",
        f"%8 = graph.reshape %7 : ({joined}) -> {tensor(*whole)}",
        f"%9 = graph.slice %8 {{begin = {begin}, end = {end}, strides = [1, 1, 1, 1]}} : ({tensor(*whole)}) -> {final}",
    ]
    lines = "\n".join(body)
    return f"func.func @main(%x: {x}) -> {final} {{\n{lines}\nreturn %9 : {final}\n}}"


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("groups", [1, 4])
def test_a_dilated_convolution(layout, groups):
    assert names(optimize(atrous(layout, groups=groups), ATROUS)) == ["conv2d", "relu"]


@pytest.mark.parametrize("crop", [(0, 0, 0, 0), (1, 0, 0, 0), (2, 3, 1, 1)])
@pytest.mark.parametrize("pad", [(2, 3, 3, 6), (4, 3, 3, 3), (2, 6, 1, 3)])
@pytest.mark.parametrize("padding", [(0, 0, 0, 0), (1, 0, 0, 1)])
def test_padding_and_cropping_become_padding(crop, pad, padding):
    if (crop, pad, padding) == ((2, 3, 1, 1), (2, 6, 1, 3), (0, 0, 0, 0)):
        crop = (2, 3, 0, 1)
    found = names(optimize(atrous(crop=crop, pad=pad, conv=padding), ATROUS))
    assert found == ["conv2d", "relu"]


def test_a_bias_stays_behind_the_convolution():
    between = '%b = graph.param "b" : tensor<{c}xf32>\n%5 = graph.bias_add %4, %b {{axis = {axis}}} : {type}'
    for layout in ("NCHW", "NHWC"):
        assert names(optimize(atrous(layout, between=between), ATROUS)) == ["conv2d", "bias_add"]


def test_more_cropped_than_padded_stays():
    assert "transpose" in names(optimize(atrous(crop=(4, 0, 0, 0)), ATROUS))


def test_strides_between_phases_stay():
    assert "transpose" in names(optimize(atrous(stride=2, pad=(3, 3, 4, 6), crop=(0, 0, 0, 0)), ATROUS))


def test_the_whole_pipeline_keeps_the_values():
    for layout in ("NCHW", "NHWC"):
        assert "transpose" not in names(optimize(atrous(layout), "graph-simplify", ATROUS))
        optimize(atrous(layout), "graph-O3")
