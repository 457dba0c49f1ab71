"""mlc devices: the devices of a cluster, who waits for them, and who has them."""

import argparse

from mlc.tools.commands.device_scheduler import add_secret_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("scheduler", metavar="SCHEDULER", help="address of the scheduler, such as tcp://host:8786")
    add_secret_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    from mlc.tuning.cluster.secret import need_distributed

    need_distributed()
    from mlc.tuning.cluster.inventory import devices

    rows = [("key", "host", "queue", "who has it")]
    for one in devices(args.scheduler, secret=args.secret, insecure=args.insecure):
        rows.append((one.key, one.host, str(one.queue), one.holder or "-"))
    widths = [max(len(row[k]) for row in rows) for k in range(3)]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, (*widths, 0), strict=True)).rstrip())
    return 0
