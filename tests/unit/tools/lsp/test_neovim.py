"""The recipes of docs/editors.md in Neovim itself, without a window: diagnostics, hover, definition, completion."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.tools

ROOT = Path(__file__).parents[4]
NEOVIM = os.environ.get("NVIM") or shutil.which("nvim")
TEXT = """\
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = graph.relu %x : tensor<4xf32>
  %z = graph.rleu %y : tensor<4xf32>
  %a = graph.add %y, %z : tensor<4xf32>
  %b = graph.tahn %y : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
SCRIPT = """\
local out = {}
local function wait(what) assert(vim.wait(20000, what, 50), "expected an answer of the server within 20 seconds") end
local function clients()
  return (vim.lsp.get_clients or vim.lsp.get_active_clients)({ bufnr = 0 })
end
local function ask(method, line, character)
  local position = { line = line, character = character }
  local params = { textDocument = vim.lsp.util.make_text_document_params(), position = position }
  local answers = assert(vim.lsp.buf_request_sync(0, method, params, 20000))
  for _, answer in pairs(answers) do return answer.result end
end
vim.cmd.edit(FILE)
wait(function() return #clients() > 0 and #vim.diagnostic.get(0) > 0 end)
out.client = clients()[1].name
out.diagnostics = {}
for _, one in ipairs(vim.diagnostic.get(0)) do
  table.insert(out.diagnostics, { line = one.lnum, character = one.col, message = one.message })
end
out.hover = ask("textDocument/hover", 1, 14)
out.definition = ask("textDocument/definition", 5, 10)
out.completion = ask("textDocument/completion", 2, 14)
vim.fn.writefile({ vim.fn.json_encode(out) }, OUT)
vim.cmd("qall!")
"""


def version() -> tuple[int, int]:
    """The version of the Neovim that is there; the test skips without one that has `vim.lsp.start`."""
    if NEOVIM is None:
        pytest.skip("neovim is not installed (`nvim`, or its path in NVIM)")
    text = subprocess.run([NEOVIM, "--version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"NVIM v(\d+)\.(\d+)", text)
    assert match is not None
    found = int(match[1]), int(match[2])
    if found < (0, 8):
        pytest.skip(f"neovim 0.8 or newer is not installed, only {found[0]}.{found[1]}")
    return found


def recipes() -> list[str]:
    """The Lua code of the page: for Neovim from 0.11 on, and for older ones."""
    return re.findall(r"```lua\n(.*?)```", (ROOT / "docs/editors.md").read_text(), re.S)


@pytest.mark.parametrize("recipe", ["new", "old"])
def test_the_recipe_starts_the_server_which_answers(tmp_path: Path, recipe: str) -> None:
    if recipe == "new" and version() < (0, 11):
        pytest.skip("neovim 0.11 or newer is not installed")
    version()
    new, old = recipes()
    configure = new if recipe == "new" else f'vim.filetype.add({{ extension = {{ mlir = "mlir" }} }})\n{old}'
    file, out = tmp_path / "wrong.mlir", tmp_path / "out.json"
    file.write_text(TEXT)
    head = f"local FILE, OUT = {json.dumps(str(file))}, {json.dumps(str(out))}\n"
    (tmp_path / "init.lua").write_text(configure)
    (tmp_path / "test.lua").write_text(head + SCRIPT)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        **{name: str(tmp_path / "home") for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "HOME")},
    }
    command = [str(NEOVIM), "--headless", "-u", str(tmp_path / "init.lua"), "-S", str(tmp_path / "test.lua")]
    done = subprocess.run([*command, "+qall!"], env=environment, capture_output=True, text=True, timeout=90)
    assert out.exists(), done.stdout + done.stderr
    found = json.loads(out.read_text())
    assert found["client"] == "mlc"
    assert sorted(one["line"] for one in found["diagnostics"]) == [2, 4]
    assert any("graph.relu" in one["message"] for one in found["diagnostics"])
    assert "relu" in json.dumps(found["hover"])
    definition = found["definition"]
    place = definition[0] if isinstance(definition, list) else definition
    assert (place.get("range") or place["targetSelectionRange"])["start"]["line"] == 1
    items = found["completion"]["items"] if isinstance(found["completion"], dict) else found["completion"]
    assert any("relu" in item["label"] for item in items)
