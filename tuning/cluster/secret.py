"""
The secret of a cluster: one file with a private key and its certificate, which every machine of the cluster has.

It serves as the authority, as the certificate of the scheduler and as that of everybody else: each end of a connection
accepts only a peer that has the same file, and what they say to each other is encrypted (TLS).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlc.support.errors import UserError
from mlc.support.scratch import scratch_directory

if TYPE_CHECKING:
    from distributed.security import Security

ENVIRONMENT = "MLC_CLUSTER_SECRET"
"""The variable that names the file where no option does."""
_DAYS = 3650


def need_distributed() -> Any:  # the package has no types
    """The package `distributed`; UserError where it is not installed."""
    try:
        import distributed
    except ImportError as error:
        raise UserError(
            f"expected Dask distributed for a cluster, but got: {error}; pip install 'mlc[cluster]'"
        ) from None
    return distributed


def security_of(secret: str | os.PathLike[str] | None, insecure: bool) -> Security | None:
    """How to connect: by the secret's file; None for connections that are open to everybody, if that is asked for."""
    from distributed.security import Security

    secret = secret or os.environ.get(ENVIRONMENT)
    if insecure:
        return None
    if not secret:
        raise UserError(
            f"expected the cluster's secret (--secret FILE or {ENVIRONMENT}), but got none; "
            "`mlc device-scheduler --secret FILE` makes one, and --insecure lets everybody who can connect run code"
        )
    path = Path(secret)
    if not path.is_file():
        raise UserError(f"{path}: expected the file of the cluster's secret; copy it from the scheduler's machine")
    if path.stat().st_mode & 0o077:
        raise UserError(f"{path}: expected a secret that only its owner can read; run `chmod 600 {path}`")
    files = {f"tls_{role}_{what}": str(path) for role in ("scheduler", "worker", "client") for what in ("key", "cert")}
    return Security(tls_ca_file=str(path), require_encryption=True, **files)


def make_secret(path: Path) -> None:
    """Write a new secret; UserError where openssl is missing, or the file cannot be written."""
    if shutil.which("openssl") is None:
        raise UserError("expected openssl to make a secret, but got no such program; install it, or copy a secret")
    with scratch_directory() as folder:
        key, certificate = folder / "key.pem", folder / "certificate.pem"
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        command += ["-days", str(_DAYS), "-subj", "/CN=mlc", "-keyout", str(key), "-out", str(certificate)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise UserError(f"expected openssl to make a secret, but got: {done.stderr.strip()[-200:]}")
        text = key.read_text() + certificate.read_text()
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    with os.fdopen(handle, "w") as file:
        file.write(text)


def address_of(address: str, security: Security | None) -> str:
    """The address of a scheduler with the protocol of the connection: `tls://host:8786`, or `tcp://host:8786`."""
    protocol, _, place = address.rpartition("://")
    if protocol not in ("", "tcp", "tls") or not place.rpartition(":")[2].isdecimal() or ":" not in place:
        raise UserError(f"expected an address such as tcp://host:8786, but got '{address}'")
    return f"{'tcp' if security is None else 'tls'}://{place}"
