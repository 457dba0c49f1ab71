"""
mlc-lsp: a language server for the .mlir files of mlc.

The modules beside `server.py` are functions from a text and a place in it to an answer, and need no pygls:
`analysis` reads a text, `references`, `hover`, `complete` and `outline` ask what it read, `commands` finds the
pipelines in RUN lines.
"""
