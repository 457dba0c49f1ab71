"""mlc device-scheduler: what tuners, sessions and device servers of a cluster meet at."""

import argparse


def add_secret_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how to connect to a cluster."""
    parser.add_argument(
        "--secret",
        metavar="FILE",
        help="the cluster's secret, the same file on all machines (default: the variable MLC_CLUSTER_SECRET)",
    )
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="connect without a secret: whoever reaches the scheduler may run any code on all machines",
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = f"{parser.description}. A secret that does not exist is made."
    parser.add_argument(
        "--host", default="", metavar="NAME", help="address to listen at (default: all of this machine)"
    )
    parser.add_argument("--port", type=int, default=8786, metavar="N", help="port to listen at (default: 8786; 0: any)")
    add_secret_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    from mlc.tuning.cluster.start import run_scheduler

    run_scheduler(
        args.host, args.port, args.secret, args.insecure, lambda address: print(f"scheduler at {address}", flush=True)
    )
    return 0
