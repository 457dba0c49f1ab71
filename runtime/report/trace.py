"""A profile as a Chrome trace: one lane for the calls, one for each thread."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlc.runtime.profile import Profile

_CALLS = -1


def trace(profile: "Profile") -> dict[str, Any]:
    """The events of one run, in microseconds from its start; each call has its figures as arguments."""
    begin = min((event.start for event in profile.events), default=0)
    threads = sorted({event.thread for event in profile.events})
    events: list[dict[str, Any]] = [_about("process_name", 0, name="mlc")]
    for thread in threads:
        tid = thread + 1
        events.append(_about("thread_name", tid, name="calls" if thread == _CALLS else f"thread {thread}"))
        events.append(_about("thread_sort_index", tid, sort_index=tid))
    for event in profile.events:
        row = profile[event.call]
        is_call = event.thread == _CALLS
        events.append(
            {
                "ph": "X",
                "pid": 1,
                "tid": event.thread + 1,
                "cat": "kernel" if is_call else "task",
                "name": row.kernel,
                "ts": (event.start - begin) / 1e3,
                "dur": (event.end - event.start) / 1e3,
                "args": row.facts() if is_call else {"task": event.task},
            }
        )
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"machine": str(profile.machine)}}


def _about(what: str, tid: int, **args: str | int) -> dict[str, Any]:
    """What the process or a lane is called, and where it stands."""
    return {"ph": "M", "pid": 1, "tid": tid, "name": what, "args": args}
