"""Runs: of the project or of another commit, alone or in pairs. It measures what ran, and judges
nothing.

```
lab.py          what a gate sees of it              laboratory.py   what makes the runs of one gate
fresh.py        those of one workload               plan.py         which are next, how many at once
ahead.py        runs that are started together      script_hold.py  by which a script waits its turn
standby.py      workers started while it collects   torch_first.py  the first import of torch
run.py          one run, phase by phase             pairing.py      what the sides' blocks differ by

context.py      what runs share                     command.py      what a worker is started with
folder.py       a run's files                       captures.py     what its captures show
import_log.py   what its processes loaded           provenance.py   which code it was of
places.py       where a file belongs                failures.py     why it came to nothing
worktree.py     another commit, checked out         side_environment.py  a run in the project, there
addopts.py      what pytest is given in its files   worker/         what runs inside the profiler
```
"""
