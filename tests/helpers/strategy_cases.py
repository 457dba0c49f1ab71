"""A small kernel for every strategy."""


def compute(name: str, spatial: str, body: str, out: str, reduce: str = "") -> str:
    return f'%{name} = te.compute "{name}" ({spatial}) {reduce} {{\n{body}\n}} : {out}\n'


def contraction(name, spatial, reduce, a, b, out):
    body = f"%0 = te.read {a} : f32\n%1 = te.read {b} : f32\n%2 = arith.mulf %0, %1 : f32\nte.yield %2 : f32"
    return compute(name, spatial, body, out, f"reduce ({reduce}) sum")


def relu_of(name, spatial, read, out, extra=""):
    body = f"%0 = te.read {read} : f32\n%z = arith.constant 0.0 : f32\n"
    body += f"{extra}%9 = arith.maximumf %0, %z : f32\nte.yield %9 : f32"
    return compute(name, spatial, body, out)


def kernel(args: str, stages: str, result: str, out: str) -> str:
    return f"te.func @k({args}) -> {out} {{\n{stages}te.return %{result} : {out}\n}}\n"


def dense(m, n, k, packed=False):
    w = f"tensor<{-(-n // 32)}x{k}x32xf32>" if packed else f"tensor<{k}x{n}xf32>"
    read = "%w[%j floordiv 32, %k, %j mod 32]" if packed else "%w[%k, %j]"
    out = f"tensor<{m}x{n}xf32>"
    d = contraction("d", f"%i : {m}, %j : {n}", f"%k : {k}", "%x[%i, %k]", read, out)
    return kernel(
        f"%x: tensor<{m}x{k}xf32>, %w: {w}", d + relu_of("o", f"%i : {m}, %j : {n}", "%d[%i, %j]", out), "o", out
    )


def dense_transposed(m, n, k, batch=1):
    out = f"tensor<{batch}x{m}x{n}xf32>"
    s = f"%b : {batch}, %i : {m}, %j : {n}"
    d = contraction("d", s, f"%k : {k}", "%x[%b, %i, %k]", "%w[%b, %j, %k]", out)
    args = f"%x: tensor<{batch}x{m}x{k}xf32>, %w: tensor<{batch}x{n}x{k}xf32>"
    return kernel(args, d + relu_of("o", s, "%d[%b, %i, %j]", out), "o", out)


def conv(c, o, h, w, kernel_size=3, stride=1, pad=1, dilation=1, block=16, lanes=16):
    k = kernel_size
    hp, wp = h + 2 * pad, w + 2 * pad
    oh, ow = ((n - dilation * (k - 1) - 1) // stride + 1 for n in (hp, wp))
    padded, out = f"tensor<1x{c}x{hp}x{wp}x{block}xf32>", f"tensor<1x{o}x{oh}x{ow}x{lanes}xf32>"
    body = (
        f"%z = arith.constant 0.0 : f32\n%0 = te.read %x[%n, %c, %h - {pad}, %w - {pad}, %b] "
        f"mask (%h - {pad}, {h + pad - 1} - %h, %w - {pad}, {w + pad - 1} - %w) else %z : f32\nte.yield %0 : f32"
    )
    source = "%pad" if pad else "%x"
    stages = compute("pad", f"%n : 1, %c : {c}, %h : {hp}, %w : {wp}, %b : {block}", body, padded) if pad else ""
    s = f"%n : 1, %o : {o}, %h : {oh}, %w : {ow}, %b : {lanes}"
    stages += contraction(
        "conv",
        s,
        f"%ic : {c}, %kh : {k}, %kw : {k}, %ib : {block}",
        f"{source}[%n, %ic, %h * {stride} + %kh * {dilation}, %w * {stride} + %kw * {dilation}, %ib]",
        "%f[%o, %ic, %kh, %kw, %ib, %b]",
        out,
    )
    stages += relu_of("out", s, "%conv[%n, %o, %h, %w, %b]", out)
    args = f"%x: tensor<1x{c}x{h}x{w}x{block}xf32>, %f: tensor<{o}x{c}x{k}x{k}x{block}x{lanes}xf32>"
    return kernel(args, stages, "out", out)


def depthwise(c, h, w, stride=1, pad=0, lanes=16):
    hp, wp = h + 2 * pad, w + 2 * pad
    oh, ow = (hp - 3) // stride + 1, (wp - 3) // stride + 1
    padded, out = f"tensor<1x{c}x{hp}x{wp}x{lanes}xf32>", f"tensor<1x{c}x{oh}x{ow}x{lanes}xf32>"
    s = f"%n : 1, %o : {c}, %h : {oh}, %w : {ow}, %b : {lanes}"
    body = (
        f"%z = arith.constant 0.0 : f32\n%0 = te.read %x[%n, %c, %h - {pad}, %w - {pad}, %b] "
        f"mask (%h - {pad}, {h + pad - 1} - %h, %w - {pad}, {w + pad - 1} - %w) else %z : f32\nte.yield %0 : f32"
    )
    stages = compute("pad", f"%n : 1, %c : {c}, %h : {hp}, %w : {wp}, %b : {lanes}", body, padded) if pad else ""
    d = stages + contraction(
        "dw",
        s,
        "%kh : 3, %kw : 3",
        f"%{'pad' if pad else 'x'}[%n, %o, %h * {stride} + %kh, %w * {stride} + %kw, %b]",
        "%f[%o, 0, %kh, %kw, %b]",
        out,
    )
    args = f"%x: tensor<1x{c}x{h}x{w}x{lanes}xf32>, %f: tensor<{c}x1x3x3x{lanes}xf32>"
    return kernel(args, d + relu_of("out", s, "%dw[%n, %o, %h, %w, %b]", out), "out", out)


def grouped(groups, c, o, h, w):
    """NCHW, `o` output and `c` input channels a group: lanes along the width."""
    out, s = f"tensor<1x{groups * o}x{h - 2}x{w - 2}xf32>", f"%n : 1, %o : {groups * o}, %h : {h - 2}, %w : {w - 2}"
    d = contraction(
        "conv",
        s,
        f"%ic : {c}, %kh : 3, %kw : 3",
        f"%x[%n, (%o floordiv {o}) * {c} + %ic, %h + %kh, %w + %kw]",
        "%f[%o, %ic, %kh, %kw]",
        out,
    )
    return kernel(f"%x: tensor<1x{groups * c}x{h}x{w}xf32>, %f: tensor<{groups * o}x{c}x3x3xf32>", d, "conv", out)


def groups_in_lanes(c, size, h, w):
    """Blocks of 16 channels, `size` channels a group: 16 / size groups side by side."""
    out, s = f"tensor<1x{c}x{h - 2}x{w - 2}x16xf32>", f"%n : 1, %o : {c}, %h : {h - 2}, %w : {w - 2}, %b : 16"
    d = contraction(
        "conv",
        s,
        f"%kh : 3, %kw : 3, %ic : {size}",
        f"%x[%n, %o, %h + %kh, %w + %kw, (%b floordiv {size}) * {size} + %ic]",
        "%f[%o, %kh, %kw, %ic, %b]",
        out,
    )
    return kernel(f"%x: tensor<1x{c}x{h}x{w}x16xf32>, %f: tensor<{c}x3x3x{size}x16xf32>", d, "conv", out)


def pool(c, h, w, combiner="max"):
    out, s = f"tensor<1x{c}x{h // 2}x{w // 2}x16xf32>", f"%n : 1, %c : {c}, %h : {h // 2}, %w : {w // 2}, %b : 16"
    body = "%0 = te.read %x[%n, %c, %h * 2 + %kh, %w * 2 + %kw, %b] : f32\nte.yield %0 : f32"
    p = compute("pool", s, body, out, f"reduce (%kh : 2, %kw : 2) {combiner}")
    return kernel(f"%x: tensor<1x{c}x{h}x{w}x16xf32>", p, "pool", out)


def plain_pool(c, h, w, window, stride=1, pad=0, combiner="max"):
    """A window that slides over pictures of plain layout."""
    rows, columns = ((size + 2 * pad - window) // stride + 1 for size in (h, w))
    out, s = f"tensor<1x{c}x{rows}x{columns}xf32>", f"%n : 1, %c : {c}, %h : {rows}, %w : {columns}"
    y, x = (f"%{axis} * {stride} + %k{axis} - {pad}" for axis in "hw")
    mask = f" mask ({y}, {h - 1} - ({y}), {x}, {w - 1} - ({x})) else %z" if pad else ""
    body = f"%z = arith.constant -1.0 : f32\n%0 = te.read %x[%n, %c, {y}, {x}]{mask} : f32\nte.yield %0 : f32"
    p = compute("pool", s, body, out, f"reduce (%kh : {window}, %kw : {window}) {combiner}")
    return kernel(f"%x: tensor<1x{c}x{h}x{w}xf32>", p, "pool", out)


def to_padded_blocks(c, h, w):
    """Channels in blocks of 16, the last of which zeros fill."""
    blocks = -(-c // 16)
    out, s = f"tensor<1x{blocks}x{h}x{w}x16xf32>", f"%n : 1, %o : {blocks}, %h : {h}, %w : {w}, %b : 16"
    body = "%z = arith.constant 0.0 : f32\n%0 = te.read %x[%n, %o * 16 + %b, %h, %w] "
    body += f"mask ({c - 1} - (%o * 16 + %b)) else %z : f32\nte.yield %0 : f32"
    return kernel(f"%x: tensor<1x{c}x{h}x{w}xf32>", compute("blocks", s, body, out), "blocks", out)


def reduce_over(shape, axes, combiner="sum"):
    names = [f"%a{k}" for k in range(len(shape))]
    spatial = ", ".join(f"{n} : {e}" for k, (n, e) in enumerate(zip(names, shape, strict=True)) if k not in axes)
    reduce = ", ".join(f"{names[k]} : {shape[k]}" for k in axes)
    out = "tensor<" + "".join(f"{e}x" for k, e in enumerate(shape) if k not in axes) + "f32>"
    body = f"%0 = te.read %x[{', '.join(names)}] : f32\nte.yield %0 : f32"
    t = "tensor<" + "".join(f"{e}x" for e in shape) + "f32>"
    return kernel(f"%x: {t}", compute("r", spatial, body, out, f"reduce ({reduce}) {combiner}"), "r", out)


def function_of_all(shape):
    """What follows a reduction over all axes: a number."""
    names = [f"%a{k}" for k in range(len(shape))]
    reduce = ", ".join(f"{n} : {e}" for n, e in zip(names, shape, strict=True))
    read = f"%0 = te.read %x[{', '.join(names)}] : f32\nte.yield %0 : f32"
    stages = compute("all", "", read, "tensor<f32>", f"reduce ({reduce}) max")
    x = "tensor<" + "".join(f"{e}x" for e in shape) + "f32>"
    return kernel(f"%x: {x}", stages + relu_of("out", "", "%all[]", "tensor<f32>"), "out", "tensor<f32>")


def softmax(n, k):
    t = f"tensor<{n}x{k}xf32>"
    row, stages = f"tensor<{n}xf32>", ""
    stages += compute(
        "max", f"%i : {n}", "%0 = te.read %x[%i, %k] : f32\nte.yield %0 : f32", row, f"reduce (%k : {k}) max"
    )
    body = "%0 = te.read %x[%i, %j] : f32\n%1 = te.read %max[%i] : f32\n"
    body += "%2 = arith.subf %0, %1 : f32\n%3 = math.exp %2 : f32\nte.yield %3 : f32"
    stages += compute("exp", f"%i : {n}, %j : {k}", body, t)
    stages += compute(
        "sum", f"%i : {n}", "%0 = te.read %exp[%i, %k] : f32\nte.yield %0 : f32", row, f"reduce (%k : {k}) sum"
    )
    body = (
        "%0 = te.read %exp[%i, %j] : f32\n%1 = te.read %sum[%i] : f32\n%2 = arith.divf %0, %1 : f32\nte.yield %2 : f32"
    )
    stages += compute("out", f"%i : {n}, %j : {k}", body, t)
    return kernel(f"%x: {t}", stages, "out", t)


def pointwise(shape, read, in_shape):
    names = [f"%a{k}" for k in range(len(shape))]
    spatial = ", ".join(f"{n} : {e}" for n, e in zip(names, shape, strict=True))
    t, i = ("tensor<" + "".join(f"{e}x" for e in s) + "f32>" for s in (shape, in_shape))
    return kernel(f"%x: {i}", relu_of("o", spatial, f"%x[{read}]", t), "o", t)


CASES = {
    "dense": dense(24, 64, 40),
    "dense ragged": dense(13, 37, 29),
    "dense one row": dense(1, 70, 33),
    "dense one column": dense(17, 1, 33),
    "dense packed": dense(23, 96, 17, packed=True),
    "dense packed one row": dense(1, 320, 40, packed=True),
    "matmul transposed": dense_transposed(19, 23, 48, batch=3),
    "matmul transposed ragged": dense_transposed(5, 7, 37),
    "conv 3x3": conv(2, 4, 14, 14),
    "conv 3x3 prime": conv(1, 3, 11, 17),
    "conv stride": conv(2, 2, 15, 13, stride=2),
    "conv dilation": conv(1, 2, 13, 16, dilation=2, pad=2),
    "conv 1x1": conv(3, 2, 7, 9, kernel_size=1, pad=0),
    "conv first layer": conv(1, 2, 23, 21, kernel_size=5, stride=2, pad=2, block=3),
    "conv half a vector": conv(2, 3, 9, 14, lanes=8),
    "conv half a vector, odd": conv(1, 1, 3, 19, block=8, lanes=8),
    "conv one vector and a half": conv(1, 1, 5, 17, kernel_size=1, pad=0, lanes=24),
    "conv row": conv(2, 2, 1, 40, kernel_size=1, pad=0),
    "depthwise": depthwise(3, 12, 19),
    "depthwise stride": depthwise(2, 11, 23, stride=2),
    "depthwise padded": depthwise(2, 9, 15, pad=1),
    "depthwise padded stride": depthwise(1, 12, 13, stride=2, pad=1),
    "depthwise half a vector": depthwise(2, 9, 15, pad=1, lanes=8),
    "groups in lanes": groups_in_lanes(2, 4, 7, 19),
    "groups in lanes, two": groups_in_lanes(1, 8, 5, 11),
    "grouped": grouped(2, 3, 5, 9, 21),
    "max pool": pool(2, 12, 22),
    "sum pool": pool(1, 7, 9, "sum"),
    "max pool, plain": plain_pool(2, 9, 37, 3),
    "max pool, plain stride": plain_pool(1, 12, 43, 3, stride=2, pad=1),
    "sum pool, plain padded": plain_pool(2, 5, 70, 5, pad=2, combiner="sum"),
    "sum pool, plain narrow": plain_pool(3, 6, 9, 2, stride=2, combiner="sum"),
    "sum rows": reduce_over((9, 67), (1,)),
    "max rows": reduce_over((3, 5, 40), (2,), "max"),
    "sum columns": reduce_over((31, 40), (0,)),
    "sum all": reduce_over((7, 19), (0, 1)),
    "sum middle": reduce_over((4, 9, 16), (1,)),
    "prod rows": reduce_over((3, 8), (1,), "prod"),
    "min image": reduce_over((2, 3, 5, 7, 16), (2, 3), "min"),
    "function of all": function_of_all((3, 5, 67)),
    "softmax": softmax(6, 40),
    "softmax long": softmax(3, 203),
    "softmax short": softmax(11, 5),
    "elementwise": pointwise((3, 5, 33), "%a0, %a1, %a2", (3, 5, 33)),
    "transpose": pointwise((19, 34), "%a1, %a0", (34, 19)),
    "transpose, large": pointwise((37, 70), "%a1, %a0", (70, 37)),
    "transpose to the front": pointwise((2, 19, 5, 17), "%a0, %a2, %a3, %a1", (2, 5, 17, 19)),
    "transpose to blocks": pointwise((1, 2, 7, 21, 16), "%a0, %a1 * 16 + %a4, %a2, %a3", (1, 32, 7, 21)),
    "transpose to padded blocks": to_padded_blocks(37, 3, 21),
    "transpose to one padded block": to_padded_blocks(3, 5, 40),
    "transpose from blocks": pointwise((1, 32, 7, 21), "%a0, %a1 floordiv 16, %a2, %a3, %a1 mod 16", (1, 2, 7, 21, 16)),
    "broadcast": pointwise((5, 70), "0, %a1", (1, 70)),
    "slice": pointwise((5, 20), "%a0, %a1 * 2 + 3", (5, 50)),
    "reshape": pointwise((6, 20), "(%a0 * 20 + %a1) floordiv 15, (%a0 * 20 + %a1) mod 15", (8, 15)),
}
