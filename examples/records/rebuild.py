"""
Tune examples/mlp.mlir for this machine with one thread, and write its records anew: tuned.jsonl and package/.

    python examples/records/rebuild.py

Without a kernel that is faster for sure in the paired check, the files stay as they are.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent


def mlc(*words: str) -> int:
    """Run a command of mlc; its exit code."""
    print("$ mlc", *words, flush=True)
    return subprocess.run([sys.executable, "-m", "mlc.tools.cli", *words]).returncode


def main(into: Path = HERE) -> int:
    """Tune, export what the check found, and write the package of the winners into a folder; the exit code."""
    with TemporaryDirectory() as folder:
        records, package = str(Path(folder) / "r.db"), Path(folder) / "package"
        model = str(HERE.parent / "mlp.mlir")
        failed = mlc("tune", model, "--records", records, "--threads", "1", "--trials", "32", "--seed", "0")
        if failed or mlc("records", "package", records, "-o", str(package), "--name", "mlp-records"):
            return 1
        failed = mlc("records", "export", records, "--kept", "-o", str(into / "tuned.jsonl"))
        shutil.rmtree(into / "package", ignore_errors=True)
        shutil.copytree(package, into / "package")
        return failed


if __name__ == "__main__":
    sys.exit(main())
