"""The gate: what is expected, how each workload is checked, what the whole comes to. It prints
nothing.

```
gate.py        one invocation: expect, check each workload, keep what was found, close
expect.py      what the baselines of this machine let expect, and what cannot be compared with them
plan.py        which runs come first, and what is said of them before they are made
check.py       one workload: the stages in their order, until one settles it; against stored runs
               (counts, screen, or these alone), another commit in pairs or blocks, or nothing
underway.py    what is known of a workload so far, what runs are held against, what may be spent
alike.py       whether two sides took the same steps, in the same processes
conclude.py    the judge's verdict with what it does not know, the anchor among it, and all that is
               said next to it
close.py       every expected workload opens the gate, or it is shut
```
"""
