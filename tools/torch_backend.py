"""
`torch.compile(model, backend="mlc")`: each subgraph of Dynamo's, made functional by AOTAutograd, is one executable.

Parameters and buffers are weights of the executable, which is compiled again when they change. What mlc does not
compute, and what needs gradients, runs in eager mode, with a warning that says why.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from operator import attrgetter
from typing import Any, cast

import torch
from torch import fx
from xdsl.utils.exceptions import VerifyException

from mlc.driver.models.compile import compile as compile_model
from mlc.driver.options import Options
from mlc.frontends.common.values import Value
from mlc.frontends.torch.arrays import to_numpy, to_torch
from mlc.frontends.torch.importer import AtenImporter, check_calls
from mlc.frontends.torch.sizes import expression
from mlc.frontends.torch.table import graph_decompositions
from mlc.support.errors import UserError, did_you_mean, warn
from mlc.support.threads import thread_count
from mlc.targets.target import Target, target_text

SOURCE = "torch.compile"
MAX_VERSIONS = 8
"""Executables that a subgraph keeps: one for each set of weights and of the sizes that Dynamo left open."""


def mlc_backend(graph: fx.GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None) -> Any:
    """A backend of torch.compile; `options` are those of mlc.compile: threads, opt_level, precision, ..."""
    from torch._dynamo.backends.common import aot_autograd

    _check_options(options or {})
    try:
        _check_inputs(inputs)
        compiler = _compiler(dict(options or {}))
        return aot_autograd(fw_compiler=compiler, inference_compiler=compiler, decompositions=graph_decompositions())(
            graph, list(inputs)
        )
    except (UserError, VerifyException) as error:
        _warn(error)
        return graph.forward


def _warn(error: Exception) -> None:
    known = isinstance(error, UserError | VerifyException)
    what = str(error) if known else f"a bug in mlc: {type(error).__name__}: {error}"
    warn(None, f"mlc leaves a subgraph of {SOURCE} to eager PyTorch: {what}")


def _check_options(options: Mapping[str, Any]) -> None:
    """UserError for an option that mlc.compile does not have, and for a value that it takes for no model."""
    known = list(signature(compile_model).parameters)[1:]
    for name in options:
        if name not in known:
            raise UserError(f"{SOURCE}: mlc has no option '{name}'{did_you_mean(name, known)}")
    thread_count(options.get("threads"))
    plain = {name: options[name] for name in ("precision", "error_growth") if name in options}
    Target.parse(Options(target_text(options.get("target", "native")), options.get("opt_level") or 3, **plain).target)


def _check_inputs(inputs: Sequence[Any]) -> None:
    """UserError for tensors that need gradients or are not in the CPU's memory."""
    tensors = [one for one in inputs if isinstance(one, torch.Tensor)]
    if torch.is_grad_enabled() and any(one.requires_grad for one in tensors):
        raise UserError("expected inference, but gradients are wanted; call it under torch.no_grad()")
    if devices := {one.device.type for one in tensors} - {"cpu"}:
        raise UserError(f"expected tensors on the CPU, but got some on {', '.join(sorted(devices))}")


def _compiler(options: Mapping[str, Any]) -> Callable[..., Any]:
    """The compiler that AOTAutograd calls with functional graphs."""

    def compiler(graph: fx.GraphModule, inputs: Sequence[Any]) -> Any:
        check_calls(graph, SOURCE)
        context: Any = cast("Any", torch)._guards.TracingContext.try_get()
        facts: Any = None if context is None else context.fw_metadata
        return Subgraph(graph, frozenset(facts.static_input_indices if facts else ()), options)

    return compiler


class Subgraph:
    """A functional graph, compiled for the weights and the sizes that it is called with."""

    _boxed_call = True
    """To AOTAutograd: the arguments come as one list, which is emptied so that they can be freed."""

    def __init__(self, graph: fx.GraphModule, weights: frozenset[int], options: Mapping[str, Any]):
        self.graph = graph
        self.weights = sorted(weights)
        self.options = options
        self.placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
        self.inputs = [i for i in range(len(self.placeholders)) if i not in weights]
        self.output = next(node for node in graph.graph.nodes if node.op == "output").args[0]
        self._versions: OrderedDict[Any, Any] = OrderedDict()

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        values = list(args)
        args.clear()
        key = self._key(values)
        version = self._versions.get(key)
        if version is None:
            version = self._versions[key] = self._version(values)
            if len(self._versions) > MAX_VERSIONS:
                self._versions.popitem(last=False)
        return version(values)

    def _key(self, values: Sequence[Any]) -> Any:
        """The key of an executable: the weights and when they were last written, sizes, numbers."""
        sizes = tuple(v.shape if isinstance(v := values[i], torch.Tensor) else v for i in self.inputs)
        return _state([values[i] for i in self.weights]), sizes

    def _version(self, values: Sequence[Any]) -> Callable[[Sequence[Any]], Sequence[Any]]:
        try:
            return Version(self, values)
        except Exception as error:  # a bug in mlc is no reason for the user's program to stop
            _warn(error)
            return lambda values: self.graph(*values)


def _state(tensors: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """Addresses of tensors, and how often each was written; writes in inference mode are not counted."""
    places = map(torch.Tensor.data_ptr, tensors)
    try:
        return *places, *map(_WRITES, tensors)
    except RuntimeError:
        return *map(torch.Tensor.data_ptr, tensors), *(0 if t.is_inference() else t._version for t in tensors)


_WRITES = attrgetter("_version")


class Version:
    """A subgraph compiled for some weights and sizes."""

    def __init__(self, of: Subgraph, values: Sequence[Any]):
        program = AtenImporter(SOURCE)
        given = self._bind(program, of, values)
        # The tensors stay alive with the executable, so that their addresses stand for them.
        self.weights = [values[i] for i in of.weights]
        results = program.run_graph(of.graph, given)
        self.inputs = [(of.placeholders[i].name, i) for i in of.inputs if isinstance(values[i], torch.Tensor)]
        self.results = [r if not isinstance(r, Value) else None for r in results]
        self.tensors = [
            (i, f"output_{i}", _strides(of.output[i])) for i, r in enumerate(results) if isinstance(r, Value)
        ]
        outputs = [results[i] for i, _, _ in self.tensors]
        self.exe = None
        if outputs:
            self.exe = compile_model(program.model([name for _, name, _ in self.tensors], outputs), **of.options)

    @staticmethod
    def _bind(program: AtenImporter, of: Subgraph, values: Sequence[Any]) -> list[Any]:
        """Each placeholder as a weight, an argument, or nothing for a number."""
        weights = set(of.weights)
        pairs = list(zip(of.placeholders, values, strict=True))
        for node, value in pairs:
            if not isinstance(value, torch.Tensor) and not isinstance(
                symbol := expression(node.meta["val"]), int | float
            ):
                program.sizes.values[symbol] = value
        tensors = [(n.name, n.meta["val"].shape, v.shape) for n, v in pairs if isinstance(v, torch.Tensor)]
        program.sizes.bind(tensors, {})
        given: list[Any] = []
        for index, (node, value) in enumerate(pairs):
            if index in weights:
                given.append(program.constant(node.name, value))
            else:
                tensor = isinstance(value, torch.Tensor)
                given.append(program.argument(node.name, node.meta["val"]) if tensor else None)
        return given

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        results = list(self.results)
        if self.exe is not None:
            arrays = self.exe({name: to_numpy(values[i]) for name, i in self.inputs})
            for index, name, strides in self.tensors:
                results[index] = _laid_out(to_torch(arrays[name]), strides)
        return results


def _strides(node: object) -> tuple[int, ...] | None:
    """The strides that an output has in eager mode, where they are not those of a dense array."""
    facts = node.meta["val"] if isinstance(node, fx.Node) else None
    if not isinstance(facts, torch.Tensor) or facts.is_contiguous():
        return None
    strides = facts.stride()
    whole = all(isinstance(stride, int) for stride in strides)  # pyright: ignore[reportUnnecessaryIsInstance] may be SymInt
    return strides if whole else None


def _laid_out(tensor: torch.Tensor, strides: tuple[int, ...] | None) -> torch.Tensor:
    if strides is None:
        return tensor
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype).copy_(tensor)
