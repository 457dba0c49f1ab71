"""One thread for PyTorch, and the same numbers in every run."""

import pytest

try:
    import torch
except ImportError:
    torch = None


@pytest.fixture(autouse=True)
def _seeded():
    if torch is not None:
        torch.manual_seed(7)
        torch.set_num_threads(1)
