"""
Rewriting inside one level: graph/, te/ and loop/ hold one pass a file, or a folder where a pass has several files.

A pass stands in `passes/<level>/<verb_object>` under the name `<level>-<verb>-<object>`. In and out: a module of
that level. What passes share stands here: the pass manager, the verifier, the rewrite rules of the graph level.
"""
