"""
Devices on many machines, by Dask distributed (the extra `mlc[cluster]`).

    scheduler (mlc device-scheduler)    TVM's tracker: who is there, who waits, who has what
      ├─ device server, key rpi4        (mlc device-server) one machine; a child process for each candidate
      ├─ device server, key rpi4
      └─ tuner: ClusterFarm             builds here, runs there; or a Session of somebody who tries a model

Whoever may connect may run any code on all machines of the cluster: connections are encrypted, and both ends prove that
they have the cluster's secret (secret.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlc.tuning.cluster.farm import ClusterFarm
    from mlc.tuning.cluster.inventory import DeviceInfo, devices
    from mlc.tuning.cluster.session import RemoteModel, Session, connect

_NAMES = {
    "ClusterFarm": "mlc.tuning.cluster.farm",
    "DeviceInfo": "mlc.tuning.cluster.inventory",
    "RemoteModel": "mlc.tuning.cluster.session",
    "Session": "mlc.tuning.cluster.session",
    "connect": "mlc.tuning.cluster.session",
    "devices": "mlc.tuning.cluster.inventory",
}


def __getattr__(name: str) -> Any:
    """The classes and functions of this package, imported when they are used."""
    if name not in _NAMES:
        raise AttributeError(f"module 'mlc.tuning.cluster' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_NAMES[name]), name)


__all__ = ["ClusterFarm", "DeviceInfo", "RemoteModel", "Session", "connect", "devices"]
