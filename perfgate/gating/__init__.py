"""A gate of a project, whatever door it was started by: it expects, makes runs and duets, keeps results, and closes.

```
gate.py       one gate: its workloads, one after the other
expecting.py  what the baselines let expect        checkout.py  which commit is measured
series.py     the candidate's runs                 against.py   the other commit of a duet
forms.py      which forms of a duet there can be   duels.py     their pairs
listener.py   who is told meanwhile
```
"""

from perfgate.gating.against import Against
from perfgate.gating.gate import Gate

__all__ = ["Against", "Gate"]
