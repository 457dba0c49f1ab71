"""Measures the steps of every tutorial and draws their times: `make tutorial-plots`, on an otherwise idle machine."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TUTORIALS = ROOT / "docs" / "tutorials"
_FILE = re.compile(r"^```\w+ (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PICTURE = re.compile(r"\((\w+)\.svg\)")


def plot(page: Path) -> list[Path]:
    """Write the pictures of a page; each is made by the program of its name."""
    text = page.read_text()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "examples").symlink_to(ROOT / "examples")
        for file, body in _FILE.findall(text):
            (folder / file).write_text(body)
        pictures = [TUTORIALS / f"{stem}.svg" for stem in _PICTURE.findall(text)]
        for picture in pictures:
            command = [sys.executable, f"{picture.stem}.py", "--plot", str(picture)]
            subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return pictures


if __name__ == "__main__":
    for one in sorted(TUTORIALS.glob("[0-9]-*.md")):
        for made in plot(one):
            print(f"wrote {made.relative_to(ROOT)}")
