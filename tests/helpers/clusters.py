"""A cluster on this machine for tests: a scheduler and device servers, as processes."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


class Server:
    """A process of a cluster, which has said its address."""

    def __init__(self, *arguments):
        command = [sys.executable, "-m", "mlc.tools.cli", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
        words = self.process.stdout.readline().split()
        self.address = words[-1] if words else ""

    def end(self, number=signal.SIGTERM):
        """End it by a signal; its exit status."""
        self.process.send_signal(number)
        status = self.process.wait()
        self.process.stdout.close()
        return status


@contextmanager
def cluster(secret, *keys):
    """A scheduler and a device server for each key."""
    started = [Server("device-scheduler", "--host", "127.0.0.1", "--port", "0", "--secret", str(secret))]
    try:
        started += [device(started[0].address, secret, key) for key in keys]
        yield started
    finally:
        for server in reversed(started):
            if server.process.poll() is None:
                server.end()


def device(address, secret, key):
    """One more device server."""
    return Server("device-server", address, "--key", key, "--host", "127.0.0.1", "--secret", str(secret))


def until(condition, seconds=60):
    """Wait for a condition; its last value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return value
