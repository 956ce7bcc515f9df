"""The program of a worker that is started before anyone knows which workload it runs: it imports
torch, then waits for the words of its pytest.

A copy stands next to that of `import_log`, under a name of its own: pytest would warn of a perfgate
that is loaded before its plugin is.
"""

from __future__ import annotations

import json
import runpy
import sys
from contextlib import suppress

NAME = "perfgate_standby"
"""What it is called there."""
FIFO = "words"
"""In its folder: one line, a JSON list."""


def main(fifo: str) -> None:
    """Become the pytest that is asked for; end where the gate is gone."""
    with open(fifo, encoding="utf-8") as words:  # noqa: PTH123
        with suppress(Exception):  # the workload's own import says what is wrong
            import torch  # noqa: F401, PLC0415
        line = words.readline()
    if not line:
        sys.exit(1)
    sys.argv[1:] = json.loads(line)
    runpy.run_module("pytest", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1])
