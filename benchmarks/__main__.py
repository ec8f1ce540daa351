"""`python -m benchmarks`: measure, print the table, keep it in benchmarks/results/."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time

from benchmarks._measure import measure
from benchmarks._report import Report
from benchmarks.measurements import MEASUREMENTS


def main() -> int:
    groups = list(dict.fromkeys(one.group for one in MEASUREMENTS))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure handrail and its peers.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(groups)}, or a target such as F-8")
    parser.add_argument("--quick", action="store_true", help="three rounds of a tenth: to try it out, not to quote")
    asked = parser.parse_args()
    targets = {one.target for one in MEASUREMENTS}
    if unknown := set(asked.names) - targets - set(groups):
        parser.error(f"nothing is called {', '.join(sorted(unknown))}; groups: {', '.join(groups)}")
    wanted = [one for one in MEASUREMENTS if not asked.names or one.group in asked.names or one.target in asked.names]
    report = Report(rounds=3 if asked.quick else 5, quick=asked.quick, load=os.getloadavg()[0])
    began = time.monotonic()
    with contextlib.suppress(KeyboardInterrupt):  # what was measured until then is shown and kept
        for number, measurement in enumerate(wanted, 1):
            so_far = f"{time.monotonic() - began:4.0f} s [{number}/{len(wanted)}]"
            print(f"{so_far} {measurement.target} {measurement.what}", file=sys.stderr, flush=True)
            report.results.append(measure(measurement, rounds=report.rounds, quick=asked.quick))
    print(report.text())
    if not asked.quick:
        print(f"\nwritten to {report.write()}")
    return 0


sys.exit(main())
