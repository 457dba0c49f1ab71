"""onnxruntime as a reference: the outputs of a model, and of each of its nodes."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from mlc.tools.reporting import UsageError

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from mlc.validation.reduction.subject import Subject


def _session(model: str | bytes) -> Any:
    try:
        import onnxruntime  # pyright: ignore[reportMissingTypeStubs] it has none
    except ImportError as error:
        raise UsageError("expected onnxruntime to be installed for --reference onnxruntime") from error
    options: Any = cast("Any", onnxruntime).SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = cast("Any", onnxruntime).GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return cast("Any", onnxruntime).InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its own exception classes have no common base
        raise UsageError(f"onnxruntime refuses the model: {error}") from error


def _run(session: Any, arrays: Sequence[Any]) -> list[Any]:
    names = [one.name for one in session.get_inputs()]
    return session.run(None, dict(zip(names, arrays, strict=True)))


def reference_outputs(path: str, subject: "Subject") -> list[Any]:
    """onnxruntime's outputs of a model on the subject's inputs, or on random ones, which the subject then has."""
    from mlc.validation.bisection.oracle import inputs_or_random

    if not path.endswith(".onnx"):
        raise UsageError(f"expected an .onnx file for --reference onnxruntime, but got '{path}'")
    subject.inputs = inputs_or_random(subject)
    if subject.inputs is None:
        raise UsageError("expected static sizes for --reference onnxruntime; give them with --shape")
    return _run(_session(path), subject.inputs)


def first_wrong_node(path: str, subject: "Subject") -> str:
    """The first node whose imported ops do not compute what onnxruntime does, as a text; empty if all do."""
    from mlc.validation.bisection.oracle import first_difference

    values = _values_by_node(subject)
    for node, outputs in _node_outputs(path, subject):
        for expected in outputs:
            found = next((v for v in values.get(node, ()) if v.shape == expected.shape), None)
            if found is None:
                continue
            if wrong := first_difference([expected], [found]):
                return (
                    f"wrong values: node '{node}' as imported does not compute what onnxruntime does: {wrong}\n"
                    "  no pass is to blame: look at the node's converter in frontends/onnx/ops, and at its ops' meaning"
                )
    return ""


def _values_by_node(subject: "Subject") -> dict[str, list[Any]]:
    """The values of the last op of each node, in the graph interpreter."""
    from mlc.validation.bisection.failure import node_of

    ops: list[Operation] = list(subject.module.walk())
    found: dict[str, list[Any]] = {}
    for index, value in subject.recorded().items():
        if name := node_of(ops[index].location):
            found[name] = [value]
    return found


def _node_outputs(path: str, subject: "Subject") -> list[tuple[str, list[Any]]]:
    """The name of each node, and onnxruntime's values of its first output."""
    import onnx

    from mlc.frontends.onnx.node import node_path

    model = cast("Any", onnx).load(path)
    nodes = [(node_path(node, k), node.output[0]) for k, node in enumerate(model.graph.node) if node.output]
    del model.graph.output[:]
    model.graph.output.extend([onnx.ValueInfoProto(name=name) for _, name in nodes])
    try:
        found = _run(_session(_bytes(model, path)), subject.inputs or [])
    except UsageError:
        return []  # some value is no tensor: only the model's outputs are compared
    return [(name, [value]) for (name, _), value in zip(nodes, found, strict=True)]


def _bytes(model: Any, path: str) -> bytes:
    """The model with its external data inside."""
    import onnx

    onnx.load_external_data_for_model(model, str(Path(path).parent))
    return model.SerializeToString()
