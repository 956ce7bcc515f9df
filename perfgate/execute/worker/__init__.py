"""What runs inside `nsys profile`: the steps of a decorated workload, and the report of how it
ended.

With `workload.py` the only code that touches torch or nvtx. It knows nothing of baselines or
verdicts.

```
steps.py      the loop, turn by turn               reporting.py how it ended
marking.py    what draws its ranges                endings.py  what may end it early
capturing.py  what opens and closes a capture
handover.py   in blocks, with another process        pinning.py  on one core, and near it
needs.py      what it took of the machine
```
"""

from perfgate.execute.worker.endings import StepsEnded, StepsMisused
from perfgate.execute.worker.marking import profiled
from perfgate.execute.worker.pinning import stay_near
from perfgate.execute.worker.reporting import report
from perfgate.execute.worker.steps import MeasuredSteps

__all__ = [
    "MeasuredSteps",
    "StepsEnded",
    "StepsMisused",
    "profiled",
    "report",
    "stay_near",
]
