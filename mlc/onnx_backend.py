"""The ONNX backend, for `onnx.backend.test.BackendTest(mlc.onnx_backend)` and its like."""

from mlc.tools.onnx_backend import (
    MlcBackend,
    MlcBackendRep,
    is_compatible,
    prepare,
    run_model,
    run_node,
    supports_device,
)

__all__ = ["MlcBackend", "MlcBackendRep", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]
