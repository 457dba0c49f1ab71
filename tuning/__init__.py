"""
Search for schedules that run faster than the analytic choice: tasks, spaces, tuners, measuring, records.

A task is a kernel on a target with a number of threads. Its space holds the values of the knobs that the strategies
write (`sched.knob`). A tuner proposes values, a farm builds and measures them, a database keeps what was measured, and
`te-read-records` puts the best values in front of `te-add-schedule`.
"""
