"""
`mlc new`: projects outside of the repository that add to mlc - a pass, an op, a dialect, a strategy, a backend.

`templates/` holds their files as they are written, under the name my_example (MyExample, my-example) and with the
suffix .tmpl, so that no tool takes them for code of mlc.
"""
