"""The judge: evidence, a policy and a stage in, a verdict out. Pure: no file, no clock, no
sentence.

```
evidence.py   what was measured, and what of it one stage compares
looks.py      when it looks and at what level, as a table; how workloads share the error
rule.py       how one time metric is judged, and times as x, what is compared
outliers.py   runs that lie too far away: dropped, slow, or of another mode
compare.py    two sets of runs: estimate, standard error, p and bounds; what occasions differ by
times.py      one time metric at one look: passes, loses, gains, or stays open
counts.py     one count
rows.py       each metric, a row
judge.py      rows -> verdict, or more runs wanted      reasons.py    why, and what to do
hold.py       what a gate can hold on a machine         spread.py     what others know of it
anchor.py     small losses that have added up           clock.py      another SM clock
```
Values pass from top to bottom; formulas and their sources stand in `docs/how-it-decides.md`.
"""
