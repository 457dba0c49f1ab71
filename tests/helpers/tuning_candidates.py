"""Candidates of a small task for tests of farms: right ones, and one for each way in which a candidate may fail."""

import os
import signal
import time

from xdsl.dialects.builtin import ModuleOp

from mlc.driver.operator.source import operator_source
from mlc.support.errors import UserError
from mlc.targets.target import target_text
from mlc.tuning.space import STRATEGY, Knob, Part, Space
from mlc.tuning.task import Task

N = 60
"""Elements of the arrays: their 240 bytes leave 16 to the next multiple of 64."""

KERNEL = f"""te.func @kernel(%x: tensor<{N}xf32>) -> tensor<{N}xf32> {{
  %y = te.compute "y" (%i : {N}) {{
    %a = te.read %x[%i] : f32
    %b = arith.addf %a, %a : f32
    te.yield %b : f32
  }} : tensor<{N}xf32>
  te.return %y : tensor<{N}xf32>
}}"""


def loops(result, more="", before="", extra="", size=N):
    """A kernel that stores `result` for every element, with other statements; it takes the arrays for `size` long."""
    return f"""loop.func @kernel(%x: memref<{size}xf32>, %y: memref<{size}xf32>) attributes {{outputs = 1 : i64}} {{
  {before}
  loop.for %i = 0 to {N} {{
    loop.block "y" (%v : {N} = %i) {{
      %a = loop.load %x[%v] : f32
      %b = {result}
      loop.store %b, %y[%v] : f32
      {more}
    }}
  }}
  {extra}
}}"""


ADD = "arith.addf %a, %a : f32"
HANG = f"""loop.for %o = 0 to 4611686018427387904 {{ loop.for %p = 0 to {N} {{
    loop.block "spin" (%u : 4611686018427387904 = %o, %w : {N} = %p) {{
      %c = loop.load %y[%w] : f32
      %d = arith.divf %c, %c : f32
      loop.store %d, %y[%w] : f32
  }} }} }}"""
KERNELS = {
    "loops": loops(ADD),
    "unlinked": f"""loop.func @kernel(%x: memref<{N}xf32>, %y: memref<{N}xf32>) attributes {{outputs = 1 : i64}} {{
      loop.call c "no_such_function" [1 : index, 0 : index] (%x, %y) outputs 1 : memref<{N}xf32>, memref<{N}xf32> }}""",
    "wrong": loops("arith.mulf %a, %a : f32"),
    "crash": loops(ADD, f"loop.store %b, %y[%v + {1 << 40}] : f32", size=1 << 41),
    "beyond": loops(ADD, "loop.store %b, %y[%v + 64] : f32", size=2 * N + 4),
    "beside": loops(ADD, "loop.store %b, %y[%v + 1] : f32\n loop.store %b, %y[%v] : f32", size=N + 1),
    "input": loops(ADD, "loop.store %b, %x[%v] : f32"),
    "hang": loops(ADD, extra=HANG),
    "memory": loops(ADD, before=f'%T = loop.alloc "shared" : memref<{1 << 33}xf32>', extra=f"""
      loop.for %o = 0 to {1 << 33} {{ loop.block "t" (%u : {1 << 33} = %o) {{
        %c = arith.constant 0.0 : f32
        loop.store %c, %T[%u] : f32 }} }}
      loop.for %o = 0 to {1 << 33} {{ loop.block "u" (%u : {1 << 33} = %o) {{
        %c = loop.load %T[%u] : f32
        loop.store %c, %y[%u mod {N}] : f32 }} }}"""),
}  # fmt: skip


def candidate(task, values):
    """The candidate of that way."""
    way = values["way"]
    if way == "refused":
        raise UserError("expected a factor that divides 60, but got 7")
    if way == "bug":
        raise KeyError("a bug of the strategy")
    if way == "crash-build":
        os.kill(os.getpid(), signal.SIGSEGV)
    if way == "hang-build":
        time.sleep(600)
    if way == "memory-build":
        bytearray(1 << 40)
    if way == "slow-build":
        time.sleep(0.3)
    text = KERNELS.get(way, task.kernel)
    return ModuleOp([op.clone() for op in operator_source(text).ops])


def task(name="kernel", default="default", kernel=KERNEL, threads=1):
    """A task whose one knob says what its candidate does."""
    ways = ("default", "other", *KERNELS, "refused", "bug", "crash-build", "hang-build", "memory-build", "slow-build")
    space = Space((Part("test", (Knob("way", ways, default),)),))
    return Task(name, kernel, target_text("native"), threads, space, 2 * N)


def values(way):
    """The values of the candidate of that way."""
    return {STRATEGY: "test", "way": way}
