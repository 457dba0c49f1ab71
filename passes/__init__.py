"""
Rewriting inside one level. The registry is data: a pass's name -> where its class is; imported when used.

A pass stands in `passes/<level>/<verb_object>.py` under the name `<level>-<verb>-<object>`; a conversion
in `lowering/<a>_to_<b>/` under the name `convert-<a>-to-<b>`.
"""

PASSES: dict[str, str] = {
    # graph
    # te
    # loop
    # conversions
}
