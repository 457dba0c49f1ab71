"""Short chains of operators that occur in networks of pictures."""

from .kind import kind
from .net import Net


@kind("chain/conv, norm, relu, add")
def residual(net: Net) -> str:
    c, size = net.pick("c", 32, 64, 128), net.span("size", 14, 56)
    x = net.input(1, c, size, size)
    y = net.op("Relu", net.norm(net.conv(x, c, c, 3, 3, bias=False), c))
    y = net.norm(net.conv(y, c, c, 3, 3, bias=False), c)
    return net.op("Relu", net.op("Add", y, x))


@kind("chain/bottleneck")
def bottleneck(net: Net) -> str:
    c, size = net.pick("c", 64, 128), net.span("size", 14, 28)
    x = net.input(1, 4 * c, size, size)
    y = net.op("Relu", net.conv(x, 4 * c, c, 1, 1))
    y = net.op("Relu", net.conv(y, c, c, 3, 3))
    return net.op("Relu", net.op("Add", net.conv(y, c, 4 * c, 1, 1), x))


def _excite(net: Net, x: str, c: int, squeezed: int, gate: str) -> str:
    y = net.op("GlobalAveragePool", x)
    y = net.op("Relu", net.conv(y, c, squeezed, 1, 1))
    return net.op("Mul", x, net.op(gate, net.conv(y, squeezed, c, 1, 1)))


@kind("chain/squeeze and excite")
def squeeze_excite(net: Net) -> str:
    c, size = net.pick("c", 72, 120, 256), net.span("size", 14, 56)
    return _excite(net, net.op("Relu", net.input(1, c, size, size)), c, c // 4, "HardSigmoid")


@kind("chain/inverted bottleneck")
def inverted(net: Net) -> str:
    c, size, k = net.pick("c", 16, 24, 40), net.span("size", 14, 56), net.pick("k", 3, 5)
    x = net.input(1, c, size, size)
    y = net.op("Clip", net.conv(x, c, 6 * c, 1, 1), net.const(0, "float32"), net.const(6, "float32"))
    y = net.op("Clip", net.conv(y, 6 * c, 6 * c, k, k, group=6 * c), net.const(0, "float32"), net.const(6, "float32"))
    return net.op("Add", net.conv(y, 6 * c, c, 1, 1), x)


@kind("chain/inverted bottleneck, swish and excite")
def efficient(net: Net) -> str:
    c, size = net.pick("c", 24, 40, 80), net.span("size", 14, 28)
    x = net.input(1, c, size, size)
    y = net.conv(x, c, 4 * c, 1, 1)
    y = net.op("Mul", y, net.op("Sigmoid", y))
    y = net.conv(y, 4 * c, 4 * c, 3, 3, group=4 * c)
    y = net.op("Mul", y, net.op("Sigmoid", y))
    return net.op("Add", net.conv(_excite(net, y, 4 * c, c, "Sigmoid"), 4 * c, c, 1, 1), x)


@kind("chain/channel shuffle between grouped convolutions")
def shuffle(net: Net) -> str:
    groups, each, size = net.pick("groups", 2, 3, 4), net.pick("each", 20, 40), net.span("size", 14, 28)
    c = groups * each
    y = net.op("Relu", net.conv(net.input(1, c, size, size), c, c, 1, 1, group=groups))
    y = net.op("Reshape", y, net.const([1, groups, each, size, size]))
    y = net.op("Reshape", net.op("Transpose", y, perm=[0, 2, 1, 3, 4]), net.const([1, c, size, size]))
    return net.conv(net.conv(y, c, c, 3, 3, group=c), c, c, 1, 1, group=groups)


@kind("chain/depthwise window between tokens")
def window_of_tokens(net: Net) -> str:
    c, size, k = net.pick("c", 96, 256, 320, 512), net.span("size", 7, 32), net.pick("k", 3, 3, 5)
    picture = net.op("Transpose", net.input(1, size * size, c), perm=[0, 2, 1])
    picture = net.op("Reshape", picture, net.const([1, c, size, size]))
    y = net.op("Reshape", net.conv(picture, c, c, k, k, group=c), net.const([1, c, size * size]))
    return net.op("Transpose", net.op("Relu", y), perm=[0, 2, 1])


@kind("chain/split, shuffle, concat")
def split_shuffle(net: Net) -> str:
    half, size = net.pick("half", 24, 58, 116), net.span("size", 14, 28)
    left, right = net.op("Split", net.input(1, 2 * half, size, size), outputs=2, axis=1, num_outputs=2)
    right = net.op("Relu", net.conv(right, half, half, 1, 1))
    right = net.op("Relu", net.conv(net.conv(right, half, half, 3, 3, group=half), half, half, 1, 1))
    y = net.op("Concat", left, right, axis=1)
    y = net.op("Reshape", y, net.const([1, 2, half, size, size]))
    return net.op("Reshape", net.op("Transpose", y, perm=[0, 2, 1, 3, 4]), net.const([1, 2 * half, size, size]))


@kind("chain/atrous pyramid")
def pyramid(net: Net) -> str:
    c, out, size = net.pick("c", 64, 128), net.pick("out", 32, 64), net.span("size", 17, 33)
    x = net.input(1, c, size, size)
    branches = [net.op("Relu", net.conv(x, c, out, 1, 1))]
    for rate in net.pick("rates", (6, 12, 18), (12, 24, 36)):
        branches.append(net.op("Relu", net.conv(x, c, out, 3, 3, dilations=[rate, rate])))
    return net.conv(net.op("Concat", *branches, axis=1), 4 * out, out, 1, 1)


@kind("chain/dense block")
def dense_block(net: Net) -> str:
    c, grow, size = net.pick("c", 64, 128), net.pick("grow", 16, 32), net.span("size", 14, 28)
    x = net.input(1, c, size, size)
    for _ in range(3):
        y = net.conv(net.op("Relu", net.norm(x, c)), c, grow, 3, 3, bias=False)
        x, c = net.op("Concat", x, y, axis=1), c + grow
    return x


@kind("chain/inception")
def inception(net: Net) -> str:
    c, size = net.pick("c", 96, 192), net.span("size", 14, 28)
    x = net.input(1, c, size, size)
    a = net.op("Relu", net.conv(x, c, 64, 1, 1))
    b = net.op("Relu", net.conv(net.op("Relu", net.conv(x, c, 48, 1, 1)), 48, 64, 5, 5))
    pooled = net.op("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4)
    return net.op("Concat", a, b, net.op("Relu", net.conv(pooled, c, 32, 1, 1)), axis=1)


@kind("chain/conv and local response")
def conv_lrn(net: Net) -> str:
    c, size = net.pick("c", 64, 96), net.span("size", 27, 56)
    y = net.op("Relu", net.conv(net.input(1, c, size, size), c, c, 3, 3))
    y = net.op("LRN", y, size=5, alpha=1e-4, beta=0.75)
    return net.op("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2])


@kind("chain/upsample, concat, conv")
def decoder(net: Net) -> str:
    c, size = net.pick("c", 32, 64), net.span("size", 14, 28)
    up = net.op(
        "Resize", net.input(1, c, size, size), "", net.const([1, 1, 2, 2], "float32"), mode="nearest",
        coordinate_transformation_mode="asymmetric", nearest_mode="floor",
    )  # fmt: skip
    y = net.op("Concat", up, net.input(1, c, 2 * size, 2 * size), axis=1)
    return net.op("Relu", net.conv(y, 2 * c, c, 3, 3))


@kind("chain/convnext block")
def convnext(net: Net) -> str:
    c, size = net.pick("c", 96, 192), net.span("size", 14, 28)
    x = net.input(1, c, size, size)
    y = net.op("Transpose", net.conv(x, c, c, 7, 7, group=c), perm=[0, 2, 3, 1])
    y = net.op("LayerNormalization", y, net.weight(c), net.weight(c), axis=-1)
    y = net.matmul(net.op("Gelu", net.matmul(y, c, 4 * c)), 4 * c, c)
    return net.op("Add", x, net.op("Transpose", y, perm=[0, 3, 1, 2]))


@kind("chain/global pool and classifier")
def classifier(net: Net) -> str:
    c, size = net.pick("c", 512, 1280, 2048), net.pick("size", 7, 8, 14)
    y = net.op("Flatten", net.op("GlobalAveragePool", net.input(1, c, size, size)))
    return net.op("Softmax", net.matmul(y, c, 1000))


@kind("chain/instance norm and relu")
def instance(net: Net) -> str:
    c, size = net.pick("c", 32, 64), net.span("size", 56, 128)
    x = net.conv(net.input(1, c, size, size), c, c, 1, 1)
    return net.op("Relu", net.op("InstanceNormalization", x, net.weight(c), net.weight(c)))
