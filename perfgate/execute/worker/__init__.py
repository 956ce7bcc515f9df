"""What runs inside `nsys profile`: the steps of a decorated workload, and the account of how it ended.

With `workload.py` the only code that touches torch or nvtx. It knows nothing of baselines or verdicts.

```
steps.py      the loop, turn by turn           account.py  how it ended
marking.py    what draws its ranges            code.py     of which code it was
capturing.py  what opens and closes a capture  endings.py  what may end it early

turns.py      in turns with another process    busy.py     how many cores it keeps busy
pinning.py    on one core, and near it         family.py   what it has started
```
"""

from perfgate.execute.worker.account import tell, tell_failed
from perfgate.execute.worker.code import ProjectFiles, digest_of, loaded_code
from perfgate.execute.worker.endings import StepsMisused, ToldWhole
from perfgate.execute.worker.marking import profiled
from perfgate.execute.worker.pinning import stay_near
from perfgate.execute.worker.steps import MeasuredSteps

__all__ = [
    "MeasuredSteps",
    "ProjectFiles",
    "StepsMisused",
    "ToldWhole",
    "digest_of",
    "loaded_code",
    "profiled",
    "stay_near",
    "tell",
    "tell_failed",
]
