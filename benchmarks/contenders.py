"""
The programs that run a model: mlc and its peers, each behind one function that says how it is loaded.

A loader takes a `Job` and returns a function of no arguments that runs the model once and returns its outputs in the
model's order. Each loader imports its package itself, so that one that is missing is left out, and the time of its
import counts. Every peer gets the settings that its own manual recommends for the least latency on a CPU.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

Arrays = list[Any]
Run = Callable[[], Arrays]


@dataclass(frozen=True)
class Job:
    """A model as files in a directory, and the number of threads to run it on."""

    name: str
    directory: Path
    threads: int
    original: Path
    """The file as it comes, for programs that are told the shapes."""
    shapes: dict[str, tuple[int, ...]]

    @property
    def fixed(self) -> Path:
        """The model with its shapes written into it."""
        return self.directory / "fixed.onnx"

    @property
    def kept(self) -> Path:
        """The directory in which a contender keeps compiled code for its next process."""
        return self.directory / f"kept-{self.threads}"

    def inputs(self) -> dict[str, Any]:
        """The inputs, by name, in the model's order."""
        with np.load(self.directory / "inputs.npz") as file:
            return dict(file)

    def reference(self) -> Arrays:
        """The outputs of onnxruntime without its optimisations."""
        with np.load(self.directory / "reference.npz") as file:
            return list(file.values())

    def text(self) -> str:
        """The job as an argument of a child process."""
        return json.dumps([self.name, str(self.directory), self.threads, str(self.original), self.shapes])

    @staticmethod
    def read(text: str) -> "Job":
        """The job of an argument."""
        name, directory, threads, original, shapes = json.loads(text)
        return Job(name, Path(directory), threads, Path(original), {k: tuple(v) for k, v in shapes.items()})


def _mlc(job: Job) -> Run:
    os.environ["MLC_CACHE_DIR"] = str(job.kept / "mlc")
    import mlc

    exe = mlc.compile(job.original, shapes=job.shapes or None, threads=job.threads)
    inputs = job.inputs()
    return lambda: list(exe(inputs).values())


def _onnxruntime(job: Job) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = job.threads, 1, 3
    if has_bytes_as_weights_alone(job.original):
        options.add_session_config_entry("session.disable_quant_qdq", "1")
    session = onnxruntime.InferenceSession(job.original, options, providers=["CPUExecutionProvider"])
    inputs = job.inputs()
    return lambda: session.run(None, inputs)


def has_bytes_as_weights_alone(path: Path) -> bool:
    """
    Whether a model's weights are in bytes and its activations in floats.

    onnxruntime then rounds the activations to bytes, too (MatMulNBits at accuracy level 4), and its values differ by
    4e-3 of the greatest instead of 1e-6; it is told to compute as the model says.
    """
    import onnx

    types = {node.op_type for node in onnx.load(path, load_external_data=False).graph.node}
    return "DequantizeLinear" in types and not types & {"QuantizeLinear", "DynamicQuantizeLinear"}


def openvino_request(path: Path, threads: int, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Any:
    """A request of OpenVINO that computes in f32 (and in bytes what the file quantises)."""
    import openvino

    core = openvino.Core()
    model = core.read_model(path)
    if shapes:
        model.reshape({name: list(shape) for name, shape in shapes.items()})
    config = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",  # else it rounds the activations of weights in bytes to bytes
    }
    return core.compile_model(model, "CPU", config).create_infer_request()


def _openvino(job: Job) -> Run:
    request, inputs = openvino_request(job.original, job.threads, job.shapes), job.inputs()
    return lambda: list(request.infer(inputs, share_inputs=True, share_outputs=True).values())


def _torch_module(job: Job) -> Any:
    """The module that the model was exported from, or the model through onnx2torch."""
    import torch

    torch.set_num_threads(job.threads)
    from export import modules

    made = modules()
    if job.name in made:
        return made[job.name][0]()
    import onnx

    define_torchvision_operators()
    from onnx2torch import convert

    return convert(onnx.load(job.fixed)).eval()


def define_torchvision_operators() -> None:
    """torchvision built for another build of torch has none of its operators; onnx2torch only needs their names."""
    import torch

    boxes = "Tensor dets, Tensor scores, float iou_threshold"
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            library.define(f"{name}({boxes}) -> Tensor")
    import torchvision  # noqa: F401


def _torch_run(job: Job, module: Any) -> Run:
    import torch

    arguments = [torch.from_numpy(array) for array in job.inputs().values()]

    def run() -> Arrays:
        with torch.inference_mode():
            result = module(*arguments)
        return [one.numpy() for one in (result if isinstance(result, tuple | list) else [result])]

    return run


def _torch(job: Job) -> Run:
    return _torch_run(job, _torch_module(job))


def _torch_compile(job: Job) -> Run:
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(job.kept / "inductor")
    os.environ["TORCHINDUCTOR_FREEZING"] = "1"  # weights become constants, which are packed ahead of time
    import torch

    module = _torch_module(job)
    if isinstance(module, torch.fx.GraphModule):
        _reshape_by_numbers(module)
    return _torch_run(job, torch.compile(module))


def _reshape_by_numbers(module: Any) -> None:
    """Replace sizes in tensors, to which onnx2torch reshapes and which torch.compile refuses, by numbers."""
    import torch
    from onnx2torch.node_converters.reshape import OnnxReshape

    def reshape(x: Any, sizes: list[int]) -> Any:
        return torch.reshape(x, [size or x.shape[axis] for axis, size in enumerate(sizes)])

    for node in list(module.graph.nodes):
        if node.op == "call_module" and isinstance(module.get_submodule(node.target), OnnxReshape):
            x, sizes = node.args
            if sizes.op == "get_attr":
                holder, _, name = sizes.target.rpartition(".")
                node.op, node.target = "call_function", reshape
                node.args = (x, getattr(module.get_submodule(holder), name).tolist())
    module.recompile()


def _iree(job: Job) -> Run:
    program = job.kept / "iree.vmfb"
    if not program.exists():
        _iree_compile(job, program)
    import iree.runtime as runtime

    one = job.threads == 1
    if not one:
        runtime.flags.parse_flags(f"--task_topology_group_count={job.threads}")
    config = runtime.Config("local-sync" if one else "local-task")
    context = runtime.SystemContext(config=config)
    module = runtime.VmModule.mmap(config.vm_instance, str(program))
    context.add_vm_module(module)
    (name,) = [name for name in module.function_names if not name.startswith("__") and not name.endswith("$async")]
    entry = context.modules[module.name][name]
    arguments = [runtime.asdevicearray(config.device, array) for array in job.inputs().values()]

    def run() -> Arrays:
        result = entry(*arguments)
        return [one.to_host() for one in (result if isinstance(result, tuple | list) else [result])]

    return run


def _iree_compile(job: Job, program: Path) -> None:
    from iree.compiler.tools import compile_file
    from iree.compiler.tools.import_onnx import __main__ as importer

    program.parent.mkdir(parents=True, exist_ok=True)
    text = program.with_suffix(".mlir")
    importer.main(importer.parse_arguments([str(job.fixed), "-o", str(text), "--opset-version", "17"]))
    flags = ["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3", "--iree-llvmcpu-stack-allocation-limit=262144"]
    compile_file(str(text), output_file=str(program), input_type="onnx", target_backends=["llvm-cpu"], extra_args=flags)


def _tvm(job: Job) -> Run:
    os.environ["TVM_NUM_THREADS"] = str(job.threads)
    import tvm
    from tvm import relax

    program = job.kept / "tvm.so"
    if not program.exists():
        import onnx
        from tvm.relax.frontend.onnx import from_onnx

        program.parent.mkdir(parents=True, exist_ok=True)
        relax.build(from_onnx(onnx.load(job.fixed)), _tvm_target()).export_library(str(program))
    device = tvm.cpu()
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(program)), device)
    arguments = [tvm.runtime.tensor(array, device) for array in job.inputs().values()]

    def run() -> Arrays:
        result = machine["main"](*arguments)
        return [result.numpy()] if hasattr(result, "numpy") else [one.numpy() for one in result]

    return run


def _tvm_target() -> Any:
    import llvmlite.binding as llvm
    import tvm

    return tvm.target.Target({"kind": "llvm", "mcpu": llvm.get_host_cpu_name(), "num-cores": os.cpu_count() or 1})


@dataclass(frozen=True)
class Contender:
    """A program: the packages that it needs, and its loader."""

    packages: tuple[str, ...]
    load: Callable[[Job], Run]

    @property
    def missing(self) -> list[str]:
        """The packages that are not installed."""
        return [name for name in self.packages if find_spec(name) is None]


CONTENDERS: Mapping[str, Contender] = {
    "mlc": Contender((), _mlc),
    "onnxruntime": Contender(("onnxruntime",), _onnxruntime),
    "openvino": Contender(("openvino",), _openvino),
    "torch": Contender(("torch", "onnx2torch"), _torch),
    "torch.compile": Contender(("torch", "onnx2torch"), _torch_compile),
    "iree": Contender(("iree",), _iree),
    "tvm": Contender(("tvm",), _tvm),
}
PEERS = tuple(name for name in CONTENDERS if name != "mlc")
