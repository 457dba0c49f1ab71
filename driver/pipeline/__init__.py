"""
Which passes run, in which order, with which options.

`pipelines` is the compiler as one list; `registry` knows every pass and dialect by name, those of users and plugins
included; `text` parses pipeline texts; `context` is mlc.PassContext; `instruments` watch passes; `manager` runs them.
"""
