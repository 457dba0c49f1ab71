"""The processes of a cluster: its scheduler, and a device server."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlc.support.errors import UserError
from mlc.tuning.cluster.secret import address_of, make_secret, need_distributed, security_of

THREADS = 4
"""Threads of a device server's worker: one waits for candidates, others serve sessions."""

PATIENCE = 60.0
"""Seconds that a device server waits for its scheduler to answer."""

_NO_PAGES = "127.0.0.1:0"
"""Where Dask's web server listens, which cannot be left out: any free port, for this machine only."""


def configure() -> None:
    """Dask's settings: what ran on a device server that dies is never run again by Dask itself, and no web pages."""
    from dask import config

    settings: dict[str, object] = {"scheduler.allowed-failures": 0, "admin.tick.limit": "1h"}
    settings |= {"scheduler.http.routes": [], "worker.http.routes": []}  # pages without a password
    config.set({f"distributed.{name}": value for name, value in settings.items()})
    logging.getLogger("distributed").setLevel(logging.WARNING)


def run_scheduler(
    host: str, port: int, secret: str | os.PathLike[str] | None, insecure: bool, said: Callable[[str], None]
) -> None:
    """Serve until SIGINT or SIGTERM; `said` gets the address. A secret that does not exist is made."""
    need_distributed()
    if not 0 <= port < 1 << 16:
        raise UserError(f"expected a port from 0 to {(1 << 16) - 1}, but got {port}")
    from distributed import Scheduler

    if secret is not None and not insecure and not Path(secret).exists():
        make_secret(Path(secret))
    security = security_of(secret, insecure)
    configure()

    async def serve() -> None:
        protocol = "tcp" if security is None else "tls"
        try:
            scheduler = Scheduler(
                host=host, port=port, protocol=protocol, security=_kept(security), dashboard_address=_NO_PAGES
            )
            await scheduler
        except (OSError, RuntimeError) as error:  # distributed wraps the OSError
            raise UserError(f"expected port {port} of {host or 'this machine'} to be free, but got: {error}") from error
        said(scheduler.address)
        await _until_ended(scheduler.finished())
        await scheduler.close()

    asyncio.run(serve())


def run_device_server(
    address: str,
    key: str,
    secret: str | os.PathLike[str] | None,
    insecure: bool,
    said: Callable[[str], None],
    host: str | None = None,
) -> None:
    """Serve a device of that key until SIGINT or SIGTERM, or until the scheduler ends; `said` gets the address."""
    need_distributed()
    from distributed import Worker

    from mlc.tuning.cluster.server import RESOURCE, DeviceServer

    if not key or "|" in key or key != key.strip():
        raise UserError(f"expected a device key such as rpi4, but got '{key}'")
    security = security_of(secret, insecure)
    place = address_of(address, security)
    configure()

    async def serve() -> None:
        worker = Worker(
            place,
            nthreads=THREADS,
            resources={RESOURCE + key: 1},
            security=_kept(security),
            host=host,
            plugins=(DeviceServer(key),),
            dashboard_address=_NO_PAGES,
            memory_limit=0,
            death_timeout=PATIENCE,
        )
        try:
            await asyncio.wait_for(_started(worker), PATIENCE)
        except (OSError, TimeoutError, RuntimeError) as error:
            await worker.close(executor_wait=False)
            raise UserError(f"expected a scheduler at {place} that answers, but got: {error or 'no answer'}") from error
        said(worker.address)
        await _until_ended(worker.finished())
        await worker.close(executor_wait=False)

    asyncio.run(serve())


def _kept(security: Any) -> Any:
    """No security at all is an empty one."""
    from distributed.security import Security

    return security if security is not None else Security()


async def _started(server: Any) -> None:
    await server


async def _until_ended(finished: Any) -> None:
    """Wait until a server ends, or a signal says so."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    waits = [asyncio.ensure_future(finished), asyncio.ensure_future(stop.wait())]
    _, left = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for one in left:
        one.cancel()
