"""
Algorithms on record: which algorithm tuning found fastest for the convolution of a kernel.

A record's question is the kernel's graph ops with the convolution by no algorithm in particular (`forms.question`);
its values are `strategy = "algorithm", algorithm = "winograd2"`. The record of the schedule is found by the kernel's te
text as always; this text contains the algorithm.
"""

from __future__ import annotations

from mlc.passes.graph.select_algorithm.forms import Site, legal_algorithms, question_hash
from mlc.support.errors import warn
from mlc.support.records import ALGORITHM, in_force
from mlc.targets.description import describe
from mlc.targets.target import Target


def algorithm_on_record(site: Site, target: Target, threads: int, growth: float) -> str | None:
    """The algorithm on record for a kernel; one beyond the accuracy budget is left, with a warning."""
    provider = in_force()
    if provider is None:
        return None
    values = provider.best(question_hash(site), describe(target), threads)
    name = None if values is None else values.get(ALGORITHM)
    if name is None:
        return None
    legal = legal_algorithms(growth)
    if name not in legal:
        known = ", ".join(legal)
        warn(site.op, f"the record of the algorithm is not used: expected one of {known}, but got '{name}'")
        return None
    return str(name)
