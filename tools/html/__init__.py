"""
The report of a compiled model as one HTML file that needs no network: `mlc inspect MODEL --html report.html`.

    collect.py    compiles the model again, kernel by kernel, and records every pass     texts.py, origins.py
    graph.py      the fused graph, laid out in layers                                    layers.py
    memory.py     which bytes of the workspace hold what, call by call
    report.py     all of it as data, which page.py writes into page/report.html
"""
