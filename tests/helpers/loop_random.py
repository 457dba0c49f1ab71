"""Random kernels: shapes, splits, vectorized loops, access patterns, masks, reductions, element types."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "i8": np.int8}
COMBINE = {
    "sum": ("arith.addf", "arith.addi", 0),
    "max": ("arith.maximumf", "arith.maxsi", -100),
    "min": ("arith.minimumf", "arith.minsi", 100),
    "prod": ("arith.mulf", "arith.muli", 1),
}


@dataclass
class Axis:
    """An axis of a block: its loops, outermost first, as (name, extent, vectorized)."""

    name: str
    extent: int
    loops: list[tuple[str, int, bool]]

    @property
    def binding(self) -> str:
        if len(self.loops) == 1:
            return f"%{self.loops[0][0]}"
        return f"%{self.loops[0][0]} * {self.loops[1][1]} + %{self.loops[1][0]}"

    @property
    def where(self) -> str | None:
        total = int(np.prod([n for _, n, _ in self.loops]))
        return f"{self.extent - 1} - ({self.binding})" if total > self.extent else None


@st.composite
def axes(draw, prefix, least, most):
    found = []
    for k in range(draw(st.integers(least, most))):
        n = draw(st.integers(1, 6 if k else 20))
        if draw(st.booleans()):
            t = draw(st.integers(1, 17))
            loops = [(f"{prefix}{k}o", -(-n // t), False), (f"{prefix}{k}i", t, draw(st.booleans()))]
        else:
            loops = [(f"{prefix}{k}", n, draw(st.booleans()))]
        found.append(Axis(f"v{prefix}{k}", n, loops))
    return found


@st.composite
def index(draw, names):
    """(text, lowest, highest) of an index expression over axes."""
    a = draw(st.sampled_from(names))
    b = draw(st.sampled_from(names))
    s, c = draw(st.integers(1, 3)), draw(st.integers(0, 2))
    n, m = a.extent - 1, b.extent - 1
    forms = [
        (f"%{a.name}", 0, n),
        (f"%{a.name} * {s} + {c}", c, n * s + c),
        (f"{n} - %{a.name}", 0, n),
        (f"%{a.name} floordiv {s + 1}", 0, n // (s + 1)),
        (f"%{a.name} mod {s + 1}", 0, min(n, s)),
        (f"%{a.name} + %{b.name}", 0, n + m),
        (str(c), c, c),
    ]
    return draw(st.sampled_from(forms))


@st.composite
def read(draw, number, names, dtype, fill):
    """A load: (its lines, the shape of its buffer)."""
    exprs = [draw(index(names)) for _ in range(draw(st.integers(0, 3)))]
    shape = [hi + 1 for _, _, hi in exprs]
    texts = [text for text, _, _ in exprs]
    if not exprs or draw(st.booleans()):
        return f"%x{number} = loop.load %X{number}[{', '.join(texts)}] : {dtype}", shape
    k = draw(st.integers(0, len(exprs) - 1))
    offset = draw(st.integers(0, 3))
    shape[k] = max(1, shape[k] - draw(st.integers(0, 4)))
    texts[k] = f"{texts[k]} - {offset}"
    mask = f"mask ({texts[k]}, {shape[k] - 1} - ({texts[k]})) else {fill}"
    return f"%x{number} = loop.load %X{number}[{', '.join(texts)}] {mask} : {dtype}", shape


def nest(loops, body):
    """Loops, outermost first, round a body."""
    for name, n, vectorized in reversed(loops):
        body = f"loop.for %{name} = 0 to {n} {'vectorized' if vectorized else ''} {{\n{body}\n}}"
    return body


@st.composite
def kernels(draw):
    """(text, input arrays) of a kernel with one block, and the block that starts its reduction."""
    dtype = draw(st.sampled_from(list(DTYPES)))
    real = dtype[0] == "f"
    spatial, reducing = draw(axes("s", 1, 3)), draw(axes("r", 0, 2))
    names = [*spatial, *reducing]
    _bound_tile(names)
    lines, shapes = [], []
    for k in range(draw(st.integers(1, 3))):
        fill = "%fill" if k == 0 else draw(st.sampled_from(["%fill", f"%x{k - 1}"]))
        line, shape = draw(read(k, names, dtype, fill))
        lines.append(line)
        shapes.append(shape)
    value = "%x0"
    for k in range(1, len(shapes)):
        ops = ["arith.addf", "arith.mulf", "arith.maximumf"] if real else ["arith.addi", "arith.muli", "arith.minsi"]
        how = draw(st.sampled_from([*ops, "select"]))
        if how == "select":
            lines.append(f"%c{k} = loop.compare {'olt' if real else 'slt'} {value}, %x{k} : {dtype}")
            lines.append(f"%y{k} = loop.select %c{k}, {value}, %fill : i1, {dtype}")
        else:
            lines.append(f"%y{k} = {how} {value}, %x{k} : {dtype}")
        value = f"%y{k}"
    order = draw(st.permutations(spatial))
    out = ", ".join(f"%{a.name}" for a in order)
    name = draw(st.sampled_from(list(COMBINE)))
    init = 0
    if reducing:
        init = COMBINE[name][2]
        lines += [
            f"%acc = loop.load %Y[{out}] : {dtype}",
            f"%new = {COMBINE[name][0 if real else 1]} {value}, %acc : {dtype}",
        ]
        value = "%new"
    lines.append(f"loop.store {value}, %Y[{out}] : {dtype}")
    block = _block("b", spatial, reducing, [f"%fill = arith.constant {'3.0' if real else '3'} : {dtype}", *lines])
    text = nest(_vectorized(names, draw), block)
    text = nest([lp for a in reducing for lp in a.loops if not lp[2]], text)
    if reducing:
        number = f"{init}.0" if real else init
        start = [f"%z = arith.constant {number} : {dtype}", f"loop.store %z, %Y[{out}] : {dtype}"]
        text = nest(_vectorized(spatial, draw), _block("init", spatial, [], start)) + "\n" + text
    outer = [lp for a in spatial for lp in a.loops if not lp[2]]
    if outer and draw(st.booleans()):
        body = nest(outer[1:], text)
        text = f"loop.for %{outer[0][0]} = 0 to {outer[0][1]} parallel {{\n{body}\n}}"
    else:
        text = nest(outer, text)
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    arrays = [rng.integers(-4, 5, shape).astype(DTYPES[dtype]) for shape in shapes]
    args = [f"%X{k}: memref<{''.join(f'{n}x' for n in s)}{dtype}>" for k, s in enumerate(shapes)]
    args.append(f"%Y: memref<{''.join(f'{a.extent}x' for a in order)}{dtype}>")
    return f"loop.func @k({', '.join(args)}) attributes {{outputs = 1 : i64}} {{\n{text}\n}}", arrays


def _bound_tile(names, most=512):
    """Fewer vectorized loops where their tile would be too large."""
    lanes = 1
    for axis in names:
        name, n, vectorized = axis.loops[-1]
        axis.loops[-1] = (name, n, vectorized and lanes * n <= most)
        lanes *= n if axis.loops[-1][2] else 1


def _vectorized(names, draw):
    return draw(st.permutations([lp for a in names for lp in a.loops if lp[2]]))


def _block(name, spatial, reducing, lines):
    def group(found):
        return "(" + ", ".join(f"%{a.name} : {a.extent} = {a.binding}" for a in found) + ")"

    where = [a.where for a in (*spatial, *reducing) if a.where]
    reduce = f"reduce {group(reducing)}" if reducing else ""
    guard = f"where ({', '.join(where)})" if where else ""
    return f'loop.block "{name}" {group(spatial)} {reduce} {guard} {{\n' + "\n".join(lines) + "\n}"


@st.composite
def stencils(draw):
    """(text, input arrays) of a kernel whose first stage is computed where blocks of the second need it."""
    n, t = draw(st.integers(1, 25)), draw(st.integers(1, 9))
    stride, halo, offset = draw(st.integers(1, 3)), draw(st.integers(0, 4)), draw(st.integers(0, 3))
    size = (n - 1) * stride + halo + 1
    part = (t - 1) * stride + halo + 1
    blocks = -(-n // t)
    kinds = [draw(st.sampled_from(["", "vectorized"])) for _ in range(3)]
    kinds[2] = kinds[2] or kinds[1]  # a vectorized loop holds none that is not
    outer = draw(st.sampled_from(["", "parallel"]))
    given_size = max(1, size - draw(st.integers(0, 3)))
    text = f"""
loop.func @k(%X: memref<{given_size}x5xf32>, %Y: memref<{n}x5xf32>) attributes {{outputs = 1 : i64}} {{
  %b = loop.alloc "shared" : memref<{size}x5xf32>
  loop.for %io = 0 to {blocks} {outer} {{
    loop.for %p = 0 to {part} {{ loop.for %c = 0 to 5 {kinds[0]} {{
      loop.block "first" (%v : {size} = %io * {t * stride} + %p, %w : 5 = %c)
          where ({size - 1} - %io * {t * stride} - %p) {{
        %z = arith.constant 2.0 : f32
        %x = loop.load %X[%v - {offset}, %w] mask (%v - {offset}, {given_size - 1 + offset} - %v) else %z : f32
        loop.store %x, %b[%v, %w] : f32
      }}
    }} }}
    loop.for %i = 0 to {t} {kinds[1]} {{ loop.for %c = 0 to 5 {kinds[2]} {{
      loop.block "second" (%v : {n} = %io * {t} + %i, %w : 5 = %c) where ({n - 1} - %io * {t} - %i) {{
        %x = loop.load %b[%v * {stride}, %w] : f32
        %y = loop.load %b[%v * {stride} + {halo}, 4 - %w] : f32
        %s = arith.subf %x, %y : f32
        loop.store %s, %Y[%v, %w] : f32
      }}
    }} }}
  }}
}}"""
    x = np.random.default_rng(0).integers(-9, 9, (given_size, 5)).astype(np.float32)
    return text, [x]
