"""The farm of docs/tuning-farms.md, with this machine in place of the desk and of all boards."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import clusters
import pytest
from clusters import Server

pytest.importorskip("distributed", reason="Dask distributed is not installed: pip install 'mlc[cluster]'")

PAGE = Path(__file__).parents[4] / "docs" / "tuning-farms.md"


def test_a_farm_of_three_boards(tmp_path):
    (block,) = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    commands = re.findall(r"^(\w+)\$ +mlc (.*)$", block, re.MULTILINE)
    assert len(block.splitlines()) == 10
    assert [where for where, _ in commands] == ["desk", "pi1", "pi2", "pi3", "desk"]
    servers = []

    def words(command):
        text = command.removesuffix("&").replace("farm.pem", str(tmp_path / "farm.pem"))
        return shlex.split(text.replace("tcp://desk:8786", servers[0].address if servers else ""))

    try:
        servers.append(Server(*words(commands[0][1]), "--host", "127.0.0.1", "--port", "0"))
        servers += [Server(*words(command), "--host", "127.0.0.1") for _, command in commands[1:4]]
        listed = [sys.executable, "-m", "mlc.tools.cli", *words(commands[4][1])]
        said = subprocess.run(listed, env=clusters.ENVIRONMENT, capture_output=True, text=True, check=True).stdout
    finally:
        for server in servers[::-1]:
            server.end()
    assert [line.split() for line in said.splitlines()[1:]] == [["rpi4", "127.0.0.1", "0", "-"]] * 3
    assert said.splitlines()[0].split() == block.splitlines()[6].split()
