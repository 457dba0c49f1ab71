"""The commands of `mlc`, one module each; `tools/cli.py` lists them."""
