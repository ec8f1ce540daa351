"""How fast handrail is, against what people would use instead and against the least that the work can cost.

    python -m benchmarks [NAME ...] [--quick]

`measurements` is the table of what is measured and demanded. Each measurement is a handful of commands; a command is
a module of `programs`, run in an environment of its own, that measures once and prints one line of JSON. The commands
of a measurement take turns (A B C A B C ...), so that whatever else the machine does falls on all of them alike; ratios
are taken round by round, and the median of the rounds is what counts. Throughput is CPU time, latency is time
on the clock.

The same demands as counts of calls, which no load can move, are tests: README.md has the table of them.
"""
