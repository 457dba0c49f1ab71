"""The PyTorch frontend: torch.export programs, modules, and `torch.compile(model, backend="mlc")`."""

from mlc.frontends.torch.export import from_torch, import_file, import_program

__all__ = ["from_torch", "import_file", "import_program"]
