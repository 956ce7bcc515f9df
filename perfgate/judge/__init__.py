"""The judge: evidence, a policy and a stage in, a verdict out. Pure: no file, no clock, no
sentence.

```
looks.py      when it looks and at what level, as a table; how workloads share the error
compare.py    two sets of runs: estimate, standard error, p and bounds; what occasions differ by
outliers.py   runs that lie too far away: dropped, slow, or of another mode
times.py      one time metric: as x, and by what rule it is judged
look.py       what it comes to at one look: passes, loses, gains, or stays open
evidence.py   what was measured, and what of it one stage compares
counts.py     counts
rows.py       each metric, a row
judge.py      rows -> verdict, why and what to do, or more runs wanted
hold.py       what a gate can hold on a machine, and what others know of it
anchor.py     small losses that have added up, and another SM clock
```
Values pass from top to bottom; formulas and their sources stand in `docs/how-it-decides.md`.
"""
