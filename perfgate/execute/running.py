"""Runs: one of the project or of another commit, and pairs of both. It measures what ran, and judges nothing.

```
bench.py        what a run needs beside its workload, also of another commit
run.py          one run: ordered, profiled, measured
pair.py         both sides of a duet at once, in turns
prepare.py      a run for another tool than nsys
tries.py        again, where nsys broke down

command.py      what nsys is to start                environment.py  the variables of its processes
exchange.py     order, report, turns                 provenance.py   which code it was of
captures.py     what its captures show               failures.py     why it came to nothing
kept.py         log and exports                      leftovers.py    what a killed gate has left
```
"""

from perfgate.execute.bench import Bench, at_commit
from perfgate.execute.kept import clean_log
from perfgate.execute.leftovers import end_killed_gates, remove_killed_runs
from perfgate.execute.pair import ReferenceFailed, Side, measure_pair
from perfgate.execute.prepare import Prepared, prepared
from perfgate.execute.provenance import code_now, is_as_blessed
from perfgate.execute.run import Measured, measure_run
from perfgate.execute.tries import TRIES, outlasting_crashes

__all__ = [
    "TRIES",
    "Bench",
    "Measured",
    "Prepared",
    "ReferenceFailed",
    "Side",
    "at_commit",
    "clean_log",
    "code_now",
    "end_killed_gates",
    "is_as_blessed",
    "measure_pair",
    "measure_run",
    "outlasting_crashes",
    "prepared",
    "remove_killed_runs",
]
