"""
A report as one HTML file: nothing is fetched, and nothing that comes from the model is ever markup.

The data are base64 of gzip in script elements that hold data, so no text of the model stands in the page; the page's
own script shows them as text. Its hash is in a content security policy, so that no other script would run.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape
from importlib.resources import files

from mlc.tools.html.collect import packed
from mlc.tools.html.report import InspectReport

SCRIPTS = (
    "data.js",
    "dom.js",
    "text.js",
    "levels.js",
    "passes.js",
    "graph.js",
    "memory.js",
    "time.js",
    "search.js",
    "main.js",
)
"""The parts of the page's script, in order."""


def page_of(report: InspectReport) -> str:
    """The page."""
    script = "\n".join(_part(name) for name in SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:"
    blobs = [_blob("facts", packed(report.facts()))]
    blobs += [_blob(f"unit{number}", unit) for number, unit in enumerate(report.units)]
    parts = {
        "policy": policy,
        "title": escape(f"{report.model['name']} - mlc"),
        "style": _part("report.css"),
        "data": "\n".join(blobs),
        "script": script,
    }
    head, *rest = _part("report.html").split("{{")
    pieces = [head]
    for piece in rest:
        name, _, text = piece.partition("}}")
        pieces += [parts[name], text]
    return "".join(pieces)


def _part(name: str) -> str:
    return files("mlc.tools.html").joinpath("page", name).read_text(encoding="utf-8")


def _blob(name: str, data: bytes) -> str:
    text = base64.b64encode(data).decode()
    return f'<script type="application/gzip" id="{name}">{text}</script>'
