"""Scheduled kernels as loop IR, with their references in numpy: GEMM, convolution, softmax, layer norm."""

import numpy as np


def rand(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def gemm(m, n, k, mr=4, nr=32, epilogue=True, parallel=True):
    """C = relu(A B + bias), split into tiles of mr x nr; ragged ones have predicates."""
    mo, no = -(-m // mr), -(-n // nr)
    where = [
        w for w, ragged in ((f"{m - 1} - %io * {mr} - %i", m % mr), (f"{n - 1} - %jo * {nr} - %j", n % nr)) if ragged
    ]
    guard = f"where ({', '.join(where)})" if where else ""
    axes = f"%vi : {m} = %io * {mr} + %i, %vj : {n} = %jo * {nr} + %j"
    nest = f"loop.for %i = 0 to {mr} vectorized {{ loop.for %j = 0 to {nr} vectorized {{"
    acc = "%T" if epilogue else "%C"
    alloc = f'%T = loop.alloc "shared" : memref<{m}x{n}xf32>' if epilogue else ""
    last = (
        f"""
      {nest} loop.block "out" ({axes}) {guard} {{
          %t = loop.load %T[%vi, %vj] : f32
          %b = loop.load %bias[%vj] : f32
          %s = arith.addf %t, %b : f32
          %z = arith.constant 0.0 : f32
          %r = arith.maximumf %s, %z : f32
          loop.store %r, %C[%vi, %vj] : f32
      }} }} }}"""
        if epilogue
        else ""
    )
    return f"""
loop.func @gemm(%A: memref<{m}x{k}xf32>, %B: memref<{k}x{n}xf32>, %bias: memref<{n}xf32>, %C: memref<{m}x{n}xf32>)
    attributes {{outputs = 1 : i64}} {{
  {alloc}
  loop.for %io = 0 to {mo} {"parallel" if parallel else ""} {{
    loop.for %jo = 0 to {no} {{
      {nest} loop.block "init" ({axes}) {guard} {{
        %z = arith.constant 0.0 : f32
        loop.store %z, {acc}[%vi, %vj] : f32
      }} }} }}
      loop.for %k = 0 to {k} {{
        {nest} loop.block "mm" ({axes}) reduce (%vk : {k} = %k) {guard} {{
          %a = loop.load %A[%vi, %vk] : f32
          %b = loop.load %B[%vk, %vj] : f32
          %c = loop.load {acc}[%vi, %vj] : f32
          %d = loop.fma %a, %b, %c : f32, f32, f32
          loop.store %d, {acc}[%vi, %vj] : f32
        }} }} }}
      }}
      {last}
    }}
  }}
}}"""


def conv(c=16, o=32, hw=9, k=3, stride=1, tile=3, rows=1):
    """A blocked k x k convolution with bias and relu; the padding of a block of rows is a buffer of the thread."""
    pad, ih, iw = k // 2, hw, hw
    oh = ow = (hw + 2 * pad - k) // stride + 1
    wo, co, ci = -(-ow // tile), o // 32, c // 16
    guard = f"where ({ow - 1} - %wo * {tile} - %w)" if ow % tile else ""
    padded = (oh - 1) * stride + k
    axes = f"%vc : {o // 16} = %oc * 2 + %o, %vh : {oh} = %h, %vw : {ow} = %wo * {tile} + %w, %vb : 16 = %b"
    nest = f"loop.for %w = 0 to {tile} vectorized {{ loop.for %o = 0 to 2 vectorized {{"
    nest += "loop.for %b = 0 to 16 vectorized {"
    return f"""
loop.func @conv(%X: memref<{ci}x{ih}x{iw}x16xf32>, %F: memref<{o // 16}x{ci}x{k}x{k}x16x16xf32>,
    %bias: memref<{o // 16}x16xf32>, %Y: memref<{o // 16}x{oh}x{ow}x16xf32>) attributes {{outputs = 1 : i64}} {{
  %P = loop.alloc "shared" : memref<{ci}x{padded}x{padded}x16xf32>
  %T = loop.alloc "shared" : memref<{o // 16}x{oh}x{ow}x16xf32>
  loop.for %h = 0 to {oh} parallel {{
    loop.for %c = 0 to {ci} {{ loop.for %ph = 0 to {k} {{ loop.for %pw = 0 to {padded} {{
      loop.for %b = 0 to 16 vectorized {{
        loop.block "pad" (%vc : {ci} = %c, %vh : {padded} = %h * {stride} + %ph, %vw : {padded} = %pw, %vb : 16 = %b) {{
          %z = arith.constant 0.0 : f32
          %x = loop.load %X[%vc, %vh - {pad}, %vw - {pad}, %vb]
            mask (%vh - {pad}, {ih - 1 + pad} - %vh, %vw - {pad}, {iw - 1 + pad} - %vw) else %z : f32
          loop.store %x, %P[%vc, %vh, %vw, %vb] : f32
        }}
      }} }} }} }}
    loop.for %oc = 0 to {co} {{ loop.for %wo = 0 to {wo} {{
      {nest} loop.block "conv_init" ({axes}) {guard} {{
        %z = arith.constant 0.0 : f32
        loop.store %z, %T[%vc, %vh, %vw, %vb] : f32
      }} }} }} }}
      loop.for %ic = 0 to {ci} {{ loop.for %kh = 0 to {k} {{ loop.for %kw = 0 to {k} {{ loop.for %ib = 0 to 16 {{
        {nest} loop.block "conv" ({axes}) reduce (%vi : {ci} = %ic, %vkh : {k} = %kh, %vkw : {k} = %kw, %vib : 16 = %ib)
          {guard} {{
          %x = loop.load %P[%vi, %vh * {stride} + %vkh, %vw * {stride} + %vkw, %vib] : f32
          %f = loop.load %F[%vc, %vi, %vkh, %vkw, %vib, %vb] : f32
          %a = loop.load %T[%vc, %vh, %vw, %vb] : f32
          %n = loop.fma %x, %f, %a : f32, f32, f32
          loop.store %n, %T[%vc, %vh, %vw, %vb] : f32
        }} }} }} }}
      }} }} }} }}
      {nest} loop.block "out" ({axes}) {guard} {{
          %t = loop.load %T[%vc, %vh, %vw, %vb] : f32
          %bb = loop.load %bias[%vc, %vb] : f32
          %s = arith.addf %t, %bb : f32
          %z = arith.constant 0.0 : f32
          %r = arith.maximumf %s, %z : f32
          loop.store %r, %Y[%vc, %vh, %vw, %vb] : f32
      }} }} }} }}
    }} }}
  }}
}}"""


def conv_reference(x, f, bias, stride=1):
    _ci, ih, _iw, _ = x.shape
    co, _, k, _, _, _ = f.shape
    p = np.pad(x, ((0, 0), (k // 2, k // 2), (k // 2, k // 2), (0, 0)))
    oh = (ih + 2 * (k // 2) - k) // stride + 1
    y = np.zeros((co, oh, oh, 16), np.float32)
    for a in range(k):
        for b in range(k):
            part = p[:, a : a + (oh - 1) * stride + 1 : stride, b : b + (oh - 1) * stride + 1 : stride]
            y += np.einsum("ihwa,oiab->ohwb", part, f[:, :, a, b])
    return np.maximum(y + bias[:, None, None, :], 0)


def reduction(name, ops, init, rows, n, lanes, where, body_load, dtype="f32", out="%S"):
    """One stage of a row-wise reduction whose reduction axis is vectorized."""
    return f"""
    loop.block "{name}_init" (%vi : {rows} = %i) {{
      %z = arith.constant {init} : {dtype}
      loop.store %z, {out}[%vi] : {dtype}
    }}
    loop.for %ko = 0 to {-(-n // lanes)} {{ loop.for %ki = 0 to {lanes} vectorized {{
      loop.block "{name}" (%vi : {rows} = %i) reduce (%vk : {n} = %ko * {lanes} + %ki) {where} {{
        %a = loop.load {out}[%vi] : {dtype}
        {body_load}
        {ops}
        loop.store %r, {out}[%vi] : {dtype}
      }} }} }}"""


def softmax(rows, n, lanes=16):
    where = f"where ({n - 1} - %ko * {lanes} - %ki)" if n % lanes else ""
    load = "%x = loop.load %X[%vi, %vk] : f32"
    return f"""
loop.func @softmax(%X: memref<{rows}x{n}xf32>, %Y: memref<{rows}x{n}xf32>) attributes {{outputs = 1 : i64}} {{
  %M = loop.alloc "shared" : memref<{rows}xf32>
  %E = loop.alloc "shared" : memref<{rows}x{n}xf32>
  %S = loop.alloc "shared" : memref<{rows}xf32>
  loop.for %i = 0 to {rows} parallel {{
    {reduction("max", "%r = arith.maximumf %a, %x : f32", "0xff800000", rows, n, lanes, where, load, out="%M")}
    loop.for %ko = 0 to {-(-n // lanes)} {{ loop.for %ki = 0 to {lanes} vectorized {{
      loop.block "exp" (%vi : {rows} = %i, %vk : {n} = %ko * {lanes} + %ki) {where} {{
        %x = loop.load %X[%vi, %vk] : f32
        %m = loop.load %M[%vi] : f32
        %d = arith.subf %x, %m : f32
        %e = math.exp %d : f32
        loop.store %e, %E[%vi, %vk] : f32
      }} }} }}
    {reduction("sum", "%r = arith.addf %x, %a : f32", "0.0", rows, n, lanes, where, load.replace("%X", "%E"))}
    loop.for %ko = 0 to {-(-n // lanes)} {{ loop.for %ki = 0 to {lanes} vectorized {{
      loop.block "out" (%vi : {rows} = %i, %vk : {n} = %ko * {lanes} + %ki) {where} {{
        %e = loop.load %E[%vi, %vk] : f32
        %s = loop.load %S[%vi] : f32
        %d = arith.divf %e, %s : f32
        loop.store %d, %Y[%vi, %vk] : f32
      }} }} }}
  }}
}}"""


def layer_norm(rows, n, lanes=16):
    where = f"where ({n - 1} - %ko * {lanes} - %ki)" if n % lanes else ""
    load = "%x = loop.load %X[%vi, %vk] : f32"
    nest = f"loop.for %ko = 0 to {-(-n // lanes)} {{ loop.for %ki = 0 to {lanes} vectorized {{"
    square = (
        "%m = loop.load %M[%vi] : f32\n%x = loop.load %X[%vi, %vk] : f32\n%c = arith.constant "
        + repr(1 / n)
        + " : f32\n"
    )
    square += "%mm = arith.mulf %m, %c : f32\n%d = arith.subf %x, %mm : f32"
    return f"""
loop.func @layer_norm(%X: memref<{rows}x{n}xf32>, %G: memref<{n}xf32>, %Y: memref<{rows}x{n}xf32>)
    attributes {{outputs = 1 : i64}} {{
  %M = loop.alloc "shared" : memref<{rows}xf32>
  %V = loop.alloc "shared" : memref<{rows}xf32>
  loop.for %i = 0 to {rows} {{
    {reduction("mean", "%r = arith.addf %a, %x : f32", "0.0", rows, n, lanes, where, load, out="%M")}
    {reduction("var", "%r = loop.fma %d, %d, %a : f32, f32, f32", "0.0", rows, n, lanes, where, square, out="%V")}
    {nest}
      loop.block "out" (%vi : {rows} = %i, %vk : {n} = %ko * {lanes} + %ki) {where} {{
        {square}
        %g = loop.load %G[%vk] : f32
        %v = loop.load %V[%vi] : f32
        %vm = arith.mulf %v, %c : f32
        %eps = arith.constant 1.0e-05 : f32
        %ve = arith.addf %vm, %eps : f32
        %rs = math.rsqrt %ve : f32
        %o = arith.mulf %d, %rs : f32
        %p = arith.mulf %o, %g : f32
        loop.store %p, %Y[%vi, %vk] : f32
      }} }} }}
  }}
}}"""
