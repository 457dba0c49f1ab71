"""mlc device-server: let a cluster's tuners and sessions use this machine."""

import argparse

from mlc.tools.commands.device_scheduler import add_secret_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("scheduler", metavar="SCHEDULER", help="address of the scheduler, such as tcp://host:8786")
    parser.add_argument("--key", required=True, metavar="NAME", help="kind of this device; equal ones share the work")
    parser.add_argument("--host", metavar="NAME", help="address at which others reach this machine (default: found)")
    add_secret_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    from mlc.tuning.cluster.start import run_device_server

    run_device_server(
        args.scheduler,
        args.key,
        args.secret,
        args.insecure,
        lambda address: print(f"device '{args.key}' at {address}", flush=True),
        args.host,
    )
    return 0
