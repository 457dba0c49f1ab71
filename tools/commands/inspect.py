"""mlc inspect: operations by level, kernels, memory; as an HTML file also the IR of every pass, and the times."""

import argparse
import os
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlc.runtime.sizes import UNBOUNDED_SIZE, Size
from mlc.tools.cli import (
    COMPILED,
    add_executor_argument,
    add_model_arguments,
    add_records_arguments,
    devices_of_arguments,
    executable_of,
    human_bytes,
    output_file,
    print_table,
    shapes_of,
    summary,
    symbols_of,
)
from mlc.tools.commands.memory import memory_of
from mlc.tools.commands.run import add_at_argument, random_inputs
from mlc.tools.reporting import UsageError

if TYPE_CHECKING:
    from mlc.runtime.executable import Executable
    from mlc.runtime.profile import Profile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_model_arguments(parser, COMPILED)
    add_records_arguments(parser)
    add_executor_argument(parser)
    parser.add_argument("--vm", action="store_true", help="print the bytecode of the executor vm")
    parser.add_argument("--json", action="store_true", help="print the calls and their buffers as JSON")
    parser.add_argument(
        "--html",
        metavar="FILE.html",
        type=output_file(".html", ".htm"),
        help="write a page that needs no network: the IR before and after every pass, what came from what from the "
        "graph to the assembly, the fused graph, the memory plan, the time of each kernel",
    )
    parser.add_argument(
        "--memory",
        metavar="FILE.svg",
        type=output_file(".svg"),
        help="write a picture of the arena over time: which bytes hold which intermediate at which call",
    )
    parser.add_argument("--no-profile", action="store_true", help="with --html: do not run the model, show no times")
    add_at_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    if args.html is not None:
        return _write_html(args)
    if args.memory is not None:
        return _write_picture(args)
    if args.no_profile or args.at:
        raise UsageError(f"expected --html FILE.html beside {'--no-profile' if args.no_profile else '--at'}")
    from mlc.runtime.vm.executable import VmExecutable

    if args.vm and (args.json or args.executor not in ("auto", "vm")):
        raise UsageError(f"expected --vm alone, but got {'--json' if args.json else f'--executor {args.executor}'}")
    executable = executable_of(argparse.Namespace(**vars(args) | {"executor": "vm"}) if args.vm else args)
    if isinstance(executable, VmExecutable) and not args.json:
        print(executable.disassemble(), end="")
        return 0
    if args.json:
        import json

        print(json.dumps(executable.graph_json, indent=1))
        return 0
    _print_head(executable, args.model)
    _print_memory(executable.artifact.model)
    _print_kernels(executable.artifact.model)
    return 0


def _print_head(executable: "Executable", name: str) -> None:
    """What a program takes and gives, and its operations by level."""
    model, report = executable.artifact.model, executable.report
    print(f"{name}: {summary(report)}, for {model['target']['cpu']}, {executable.threads} threads")
    for kind, specs in (("input", executable.inputs), ("output", executable.outputs)):
        for spec in specs:
            print(f"  {kind} {spec}")
    for symbol, low, high, step in model.get("symbols", ()):
        to = f"to {high}" if high < UNBOUNDED_SIZE else "on"
        print(f"  symbol {symbol}: {low} {to}{f' in steps of {step}' * (step > 1)}")
    print_table("operations by level", ("level", "ops"), [(k, str(v)) for k, v in report["ops"].items()])


def _print_memory(model: dict[str, Any]) -> None:
    """The bytes of weights, intermediates and workspaces."""
    plan = model["plan"]
    planned = [
        ("intermediates, planned", plan["bytes"]),
        ("intermediates, no plan can be below", plan["bound"]),
        ("intermediates, one after another", plan["sum"]),
    ]
    memory = [
        ("weights", model["weights_bytes"]),
        *(
            (f"{pool['kind']} pool '{pool['name']}', of {human_bytes(pool['bytes'])}", pool["used"])
            for pool in model.get("pools", ())
        ),
        *([] if model.get("symbols") else planned),  # of symbolic sizes the plan is made at the call
        ("kernels' shared workspace", model["kernel_workspace_bytes"]),
        ("scratch of each thread", model["scratch_bytes"]),
    ]
    print_table("memory", ("what", "bytes"), [(what, human_bytes(size)) for what, size in memory])


def _print_kernels(model: dict[str, Any]) -> None:
    """The kernels, those that are called most first."""
    calls = Counter(node["kernel"] for node in model["nodes"])
    flops = {node["kernel"]: _millions(node["flops"]) for node in model["nodes"]}
    sizes = {name: size for name, _, size in model["objects"]}
    rows = [(k, str(n), flops[k], human_bytes(sizes[k])) for k, n in calls.most_common()]
    print_table("kernels", ("kernel", "calls", "MFLOP a call", "object"), rows)


def _millions(flops: Size) -> str:
    """Operations in millions; of symbolic sizes `-`."""
    return f"{flops / 1e6:.2f}" if isinstance(flops, int) else "-"


def _write_picture(args: argparse.Namespace) -> int:
    """Compile and write the picture of the arena."""
    from mlc.runtime.vm.executable import VmExecutable
    from mlc.tools.memory_picture import picture_of

    executable = executable_of(args)
    if isinstance(executable, VmExecutable):
        raise UsageError("expected a model that AOT compiles for --memory, but the vm runs it and plans at each call")
    model = executable.artifact.model
    if names := ", ".join(name for name, *_ in model.get("symbols", ())):
        raise UsageError(f"expected static sizes for --memory, but {names} stay open; give sizes with --shape")
    text = picture_of(Path(args.model).stem, model, model.get("pools", ()))
    args.memory.write_text(text)
    plan = model["plan"]
    peak, bound = human_bytes(plan["bytes"]), human_bytes(plan["bound"])
    print(f"wrote {args.memory}: peak {peak}, no plan can be below {bound}")
    return 0


def _write_html(args: argparse.Namespace) -> int:
    """Compile, record, measure, and write the page."""
    if os.path.isdir(args.model):
        raise UsageError(f"expected a model file to compile with --html, but got the directory {args.model}")
    if args.json:
        raise UsageError("expected --json or --html, but got both")
    from mlc.driver.models.compile import load_model
    from mlc.driver.models.schedules import Schedules
    from mlc.driver.options import Options, current_context
    from mlc.tools.html.collect import collect
    from mlc.tools.html.page import page_of
    from mlc.tools.html.report import report_of

    start = time.perf_counter()
    executable = executable_of(args)
    inputs, profile, reason = _measured(args, executable)
    options = Options(
        args.target,
        args.opt_level,
        executable.threads,
        schedules=Schedules.read(args.schedules),
        precision=args.precision,
        error_growth=args.error_growth,
        context=current_context(),
        memory=memory_of(args),
        compilers=tuple(args.compiler),
        devices=devices_of_arguments(args),
    )
    collected = collect(load_model(args.model, shapes_of(args), symbols_of(args), mapped=True), options)
    report = report_of(Path(args.model).stem, executable, collected, profile, reason, inputs)
    data = page_of(report).encode()
    args.html.write_bytes(data)
    print(f"wrote {args.html}: {human_bytes(len(data))} in {time.perf_counter() - start:.1f} s{_note(reason)}")
    return 0


def _note(reason: str) -> str:
    return f"; without times: {reason}" if reason else ""


def _measured(
    args: argparse.Namespace, executable: "Executable"
) -> "tuple[dict[str, Any] | None, Profile | None, str]":
    """Random inputs, the profile of running them, and why there is none."""
    from mlc.runtime.symbolic import UnloadedExecutable

    shapes = shapes_of(args, "at")
    sizes = [(spec.name, (1, 2, "..") if spec.shape is None else spec.shape) for spec in executable.inputs]
    is_open = any(not isinstance(size, int) for _, shape in sizes for size in shape)
    if is_open and shapes is None:
        like = " ".join(f"--at {name}={','.join(map(str, shape))}" for name, shape in sizes)
        return None, None, f"sizes are open; give them with numbers in {like}"
    inputs = random_inputs(executable, shapes)
    if args.no_profile:
        return inputs, None, "--no-profile was given"
    if isinstance(executable, UnloadedExecutable):
        return inputs, None, f"the code is for another CPU ({args.target})"
    try:
        return inputs, executable.profile(inputs), ""
    except ValueError as error:  # sizes that do not fit
        raise UsageError(str(error)) from error
