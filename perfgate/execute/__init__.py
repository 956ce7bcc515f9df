"""Runs: of the project or of another commit, alone or in pairs. It measures what ran, and judges
nothing.

```
lab.py          where a gate's runs come from          bench.py        what they share, also of another commit
run.py          one run: ordered, profiled, measured   pair.py         both sides at once, in blocks
prepare.py      a run for another tool than nsys       worker/         what runs inside the profiler

command.py      what nsys is to start                  environment.py  the variables of its processes
worktree.py     another commit, checked out            side_environment.py  a run in the project, there
exchange.py     order, report, turns                   captures.py     what its captures show
import_log.py   what its processes loaded              provenance.py   which code it was of
places.py       where a file belongs                   failures.py     why it came to nothing
kept.py         log and exports                        leftovers.py    what a killed gate has left
addopts.py      what pytest was told in its files
```
"""
