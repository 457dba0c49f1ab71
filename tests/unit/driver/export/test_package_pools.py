"""Packages of programs in memory pools: the caller hands in an array for each, of its own size."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from mlc.dialects.syntax.source import parse_module
from mlc.driver.export.package import write_package
from mlc.driver.memory_options import MemoryOptions
from mlc.driver.options import Options
from mlc.frontends.common.model import Model
from mlc.support.errors import UserError
from mlc.support.registered.memory_pools import ConstantPool, DeclaredPool, WorkspacePool
from mlc.support.weights import WeightStore

TILE = "tensor<16x64xf32>"
DENSE = "(tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>"
MODEL = f"""
func.func @main(%x: {TILE} {{graph.name = "x"}}) -> ({TILE} {{graph.name = "y"}}) {{
  %v = graph.param "v" : tensor<64x64xf32>
  %w = graph.param "w" : tensor<64x64xf32>
  %0 = graph.dense %x, %v : {DENSE}
  %1 = graph.softmax %0 : {TILE}
  %2 = graph.dense %1, %w : {DENSE}
  %3 = graph.softmax %2 : {TILE}
  return %3 : {TILE}
}}
"""
POOLS = (WorkspacePool("sram", 4096), WorkspacePool("dram", 1 << 20))
CONSTANTS = (ConstantPool("rom", 20000), ConstantPool("flash", 1 << 20))
CALLER = """
#include "net.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An array at a multiple of 64, with 64 bytes behind it that are never written. */
static char *array(size_t bytes) {
  char *memory = (char *)malloc(bytes + 192);
  if (!memory) exit(99);
  memory += 64 - (uintptr_t)memory % 64;
  memset(memory, 0xff, bytes + 64);
  return memory;
}
static int untouched(const char *memory, size_t bytes) {
  for (int k = 0; k < 64; ++k)
    if (memory[bytes + k] != (char)0xff) return 0;
  return 1;
}

int main(int argc, char **argv) {
  static float x[16 * 64], y[16 * 64], expected[16 * 64];
  net_inputs in = {x};
  net_outputs out = {expected};
  net_options options = {0};
  net_pools pools;
  memset(&pools, 0, sizeof pools);
  for (int k = 0; k < 16 * 64; ++k) x[k] = (float)(k % 13) - 6;
#ifdef BESIDE
  char *weights = array(NET_WEIGHTS_BYTES);
  FILE *file = fopen(argv[1], "rb");
  if (!file || fread(weights, 1, NET_WEIGHTS_BYTES, file) != NET_WEIGHTS_BYTES) return 98;
  options.weights = weights;
#endif
  (void)argc, (void)argv;
  if (net_run(&in, &out, &options)) return 1;
#ifdef WORKSPACE
  const size_t bytes = NET_SCRATCH_BYTES(1);
#else
  const size_t bytes = NET_WORKSPACE_BYTES(1);
#endif
  char *arena = array(bytes);
  out.y = y, options.pools = &pools, options.arena = arena;
#ifdef WORKSPACE
  char *sram = array(NET_SRAM_POOL_BYTES), *dram = array(NET_DRAM_POOL_BYTES);
  if (NET_SRAM_POOL_BYTES > 4096 || NET_DRAM_POOL_BYTES <= 0) return 2;
  if (net_run(&in, &out, &options) != NET_INVALID) return 3;
  pools.sram.data = sram, pools.sram.bytes = NET_SRAM_POOL_BYTES;
  pools.dram.data = dram, pools.dram.bytes = NET_DRAM_POOL_BYTES - 1;
  if (net_run(&in, &out, &options) != NET_INVALID) return 4;
  pools.dram.bytes = NET_DRAM_POOL_BYTES, pools.sram.data = sram + 4;
  if (net_run(&in, &out, &options) != NET_INVALID) return 5;
  pools.sram.data = sram;
#endif
  if (net_run(&in, &out, &options) || memcmp(y, expected, sizeof y)) return 6;
#ifdef WORKSPACE
  if (!untouched(sram, NET_SRAM_POOL_BYTES) || !untouched(dram, NET_DRAM_POOL_BYTES)) return 7;
  if (untouched(sram - 64 + NET_SRAM_POOL_BYTES / 2, 0) || untouched(dram, 0)) return 8;
#endif
  if (!untouched(arena, bytes)) return 9;
#ifdef BESIDE
  char *rom = array(NET_ROM_POOL_BYTES), *flash = array(NET_FLASH_POOL_BYTES);
  memcpy(rom, weights + NET_ROM_POOL_OFFSET, NET_ROM_POOL_BYTES);
  memcpy(flash, weights + NET_FLASH_POOL_OFFSET, NET_FLASH_POOL_BYTES);
  memset(weights, 0xff, NET_WEIGHTS_BYTES), memset(y, 0, sizeof y);
  options.weights = NULL, pools.rom.data = rom, pools.flash.data = flash;
  pools.rom.bytes = NET_ROM_POOL_BYTES, pools.flash.bytes = NET_FLASH_POOL_BYTES - 1;
  if (net_run(&in, &out, &options) != NET_INVALID) return 10;
  pools.flash.bytes = NET_FLASH_POOL_BYTES;
  if (net_run(&in, &out, &options) || memcmp(y, expected, sizeof y)) return 11;
  pools.rom.data = NULL;
  if (net_run(&in, &out, &options) != NET_INVALID) return 12;
#endif
  return 0;
}
"""


def package(directory: Path, pools: tuple[DeclaredPool, ...], **options: object) -> Path:
    store, rng = WeightStore(), np.random.default_rng(0)
    for name in ("v", "w"):
        store.add(name, rng.standard_normal((64, 64)).astype(np.float32))
    chosen = Options(memory=MemoryOptions(pools=pools))
    write_package(Model(parse_module(MODEL), store), directory, chosen, name="net", **options)  # pyright: ignore[reportArgumentType] the options of each test
    return directory


def run(directory: Path, *defines: str) -> int:
    (directory / "program.c").write_text(CALLER)
    library = str(next(directory.glob("*/libnet.*")))
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{directory}/include", f"-Wl,-rpath,{directory}/lib"]
    command = ["cc", *flags, *(f"-D{one}" for one in defines), "program.c", library, "-lm", "-o", "program"]
    subprocess.run(command, check=True, cwd=directory)
    return subprocess.run([directory / "program", directory / "weights/net.weights"], check=False).returncode


@pytest.mark.parametrize(
    ("lang", "weights", "pools", "defines"),
    [
        ("a", "embed", POOLS, ["WORKSPACE"]),
        ("a", "beside", (*POOLS, *CONSTANTS), ["WORKSPACE", "BESIDE"]),
        ("so", "beside", CONSTANTS, ["BESIDE"]),
        ("c", "embed", (*POOLS, *CONSTANTS), ["WORKSPACE"]),
        ("c", "beside", (*POOLS, *CONSTANTS), ["WORKSPACE", "BESIDE"]),
    ],
)
def test_pools_are_arrays_of_the_caller(
    tmp_path: Path, lang: str, weights: str, pools: tuple[DeclaredPool, ...], defines: list[str]
):
    directory = package(tmp_path / "net", pools, lang=lang, weights=weights)
    done = subprocess.run(["make", "-s", "-C", directory, "check"], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    assert "y: agrees" in done.stdout
    assert run(directory, *defines) == 0


@pytest.mark.parametrize("lang", ["a", "c"])
@pytest.mark.parametrize(
    ("pools", "message"),
    [((WorkspacePool("sram", 64),), "in the workspace pools"), ((ConstantPool("rom", 64),), "room for a constant")],
)
def test_pools_that_are_too_small_are_refused(tmp_path: Path, lang: str, pools: tuple[DeclaredPool, ...], message: str):
    with pytest.raises(UserError, match=message):
        package(tmp_path / "net", pools, lang=lang)
    assert not (tmp_path / "net").exists()
