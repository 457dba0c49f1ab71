"""mlc inspect: operations by level, kernels, memory."""

import argparse
from collections import Counter

from mlc.runtime.sizes import UNBOUNDED_SIZE, Size
from mlc.tools.cli import COMPILED, add_model_arguments, executable_of, human_bytes, print_table, summary


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_model_arguments(parser, COMPILED)
    parser.add_argument("--json", action="store_true", help="print the calls and their buffers as JSON")


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    executable = executable_of(args)
    if args.json:
        import json

        print(json.dumps(executable.graph_json, indent=1))
        return 0
    model, report = executable.artifact.model, executable.report
    print(f"{args.model}: {summary(report)}, for {model['target']['cpu']}, {executable.threads} threads")
    for kind, specs in (("input", executable.inputs), ("output", executable.outputs)):
        for spec in specs:
            print(f"  {kind} {spec}")
    symbols = model.get("symbols", ())
    for name, low, high, step in symbols:
        to = f"to {high}" if high < UNBOUNDED_SIZE else "on"
        print(f"  symbol {name}: {low} {to}{f' in steps of {step}' * (step > 1)}")
    print_table("operations by level", ("level", "ops"), [(k, str(v)) for k, v in report["ops"].items()])
    plan = model["plan"]
    planned = [
        ("intermediates, planned", plan["bytes"]),
        ("intermediates, no plan can be below", plan["bound"]),
        ("intermediates, one after another", plan["sum"]),
    ]
    memory = [
        ("weights", model["weights_bytes"]),
        *([] if symbols else planned),  # of symbolic sizes the plan is made at the call
        ("kernels' shared workspace", model["kernel_workspace_bytes"]),
        ("scratch of each thread", model["scratch_bytes"]),
    ]
    print_table("memory", ("what", "bytes"), [(what, human_bytes(size)) for what, size in memory])
    calls = Counter(node["kernel"] for node in model["nodes"])
    flops = {node["kernel"]: _millions(node["flops"]) for node in model["nodes"]}
    sizes = {name: size for name, _, size in model["objects"]}
    rows = [(k, str(n), flops[k], human_bytes(sizes[k])) for k, n in calls.most_common()]
    print_table("kernels", ("kernel", "calls", "MFLOP a call", "object"), rows)
    return 0


def _millions(flops: Size) -> str:
    """Operations in millions; of symbolic sizes `-`."""
    return f"{flops / 1e6:.2f}" if isinstance(flops, int) else "-"
