"""Which devices a cluster has, who waits for them, and who has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlc.tuning.cluster.server import HOLD, RESOURCE, RUN

if TYPE_CHECKING:
    import os


@dataclass(frozen=True)
class DeviceInfo:
    """A device of a cluster, at one moment."""

    key: str
    host: str
    address: str
    holder: str
    """Who has the device, and for what: `ann@laptop: conv2d_add_relu`; empty while it is free."""
    queue: int
    """Batches and sessions that wait for this device."""


def devices(address: str, *, secret: str | os.PathLike[str] | None = None, insecure: bool = False) -> list[DeviceInfo]:
    """The devices of the cluster whose scheduler is at that address, by key and host; UserError as ClusterFarm."""
    from mlc.tuning.cluster.farm import connected

    with connected(address, secret, insecure) as client:
        rows = client.run_on_scheduler(_rows)
    return sorted((DeviceInfo(*row) for row in rows), key=lambda one: (one.key, one.host, one.address))


def _rows(dask_scheduler: Any = None) -> list[tuple[str, str, str, str, int]]:
    """On the scheduler: the facts of each device; the tasks of a worker are those that it runs and that wait for it."""
    found: list[tuple[str, str, str, str, int]] = []
    for address, worker in dask_scheduler.workers.items():
        keys = [name.removeprefix(RESOURCE) for name in worker.resources if name.startswith(RESOURCE)]
        tasks = [str(task.key) for task in worker.processing if str(task.key).startswith((RUN, HOLD))]
        running = {str(getattr(task, "key", task)) for task in worker.executing}
        holders = [task for task in tasks if task in running]
        for key in keys:
            holder = holder_of(holders[0]) if holders else ""
            found.append(
                (key, str(worker.extra.get("host") or worker.host), address, holder, len(tasks) - len(holders[:1]))
            )
    return found


def holder_of(task: str) -> str:
    """Who a task belongs to, from its key: `mlc-run|ann@laptop|conv2d|...`."""
    _, owner, what, *_ = task.split("|")
    return f"{owner}: {what}"


def workers_of(client: Any, key: str) -> list[str]:
    """The addresses of the devices of a key, from what the client knows of the scheduler."""
    found = client.scheduler_info(n_workers=-1)["workers"]
    return [address for address, facts in found.items() if RESOURCE + key in facts["resources"]]


def keys_of(client: Any) -> set[str]:
    """The keys of all devices."""
    found = client.scheduler_info(n_workers=-1)["workers"]
    names = {name for facts in found.values() for name in facts["resources"]}
    return {name.removeprefix(RESOURCE) for name in names if name.startswith(RESOURCE)}
