"""Holds a script that knows nothing of perfgate: at its first use of CUDA, until its turn, and at
its end, until all that were started with it have measured.

```
held   |start of Python, torch and CUDA|.....|build, warm-up, steps, end|.....|      . waits
```

A copy stands next to that of `import_log`, which loads it in a run that is held: so it is of the
standard library alone, for whichever Python a run has, and perfgate itself takes only names from
here. It costs a call for each import of what is not loaded yet, and none of the steps.
"""

from __future__ import annotations

import atexit
import os
import sys

NAME = "perfgate_hold"
"""What it is called there."""
FIFOS = ("go", "gate")
"""In the run's folder: what a held process reads, and what it writes."""
HELD = os.path.join("imports", "held")  # noqa: PTH118
"""And a file with the id of the one process that is held."""
READY = b"r"
"""Of a held run: it is where it is to wait."""
TURN = b"t"
DONE = b"d"
"""The rest is the other side's, without a turn any more."""


class ScriptHold:
    """One process, which is held if it is the first of its run to use CUDA, by torch, and neither a
    forked child nor one of several ranks."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._pid = os.getpid()
        self._leave = os._exit
        self._is_registered = self._has_turn = False
        self._ends: list[int] = []

    def start(self) -> None:
        """Wait for torch, and for the end. What is registered first at the end is called last: by
        then threads and loaders' processes are joined."""
        sys.meta_path.insert(0, self)
        atexit.register(self.end)
        os._exit = self.exit_at_once  # type: ignore[assignment]  # as import_log does

    def find_spec(self, _name: str, _path: object = None, _target: object = None) -> None:
        """Be asked for each import, and find nothing: of the ones that follow on torch.cuda, while
        torch itself is still being loaded, the first lets torch know of `wait`."""
        # Not getattr: it would wake up modules that import themselves lazily.
        names = getattr(sys.modules.get("torch.cuda"), "__dict__", {})
        if not self._is_registered and "_lazy_call" in names:
            self._is_registered = True
            names["_lazy_call"](self.wait)

    def wait(self) -> None:
        """Called by torch once it has initialised CUDA, in whichever thread: all others that come
        to CUDA wait as well."""
        if os.getpid() != self._pid or os.environ.get("LOCAL_WORLD_SIZE", "1") != "1":
            return
        try:
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
            with open(os.open(os.path.join(self._folder, HELD), flags), "w") as file:  # noqa: PTH118, PTH123
                file.write(str(self._pid))
        except OSError:  # another process of the run is held
            return
        try:  # noqa: SIM105 - it takes another module
            # Makes the context. torch.cuda.synchronize would have torch's C++ take CUDA for
            # initialised, and another thread would not wait.
            sys.modules["torch"]._C._cuda_synchronize()
        except Exception:  # noqa: BLE001, S110 - the script's own use says what is wrong
            pass
        own, other = (os.path.join(self._folder, name) for name in FIFOS)  # noqa: PTH118
        # Opened so, it waits for nobody: a gate that is gone is the end of the file.
        self._ends = [os.open(own, os.O_RDONLY | os.O_NONBLOCK), os.open(other, os.O_RDWR)]
        os.set_blocking(self._ends[0], True)
        os.register_at_fork(after_in_child=self._close)
        if self._say(READY) != TURN:
            self._leave(1)
        self._has_turn = True

    def end(self) -> None:
        """Keep still until the others have measured. One that has failed is not waited for."""
        if self._has_turn and os.getpid() == self._pid and not hasattr(sys, "last_type"):
            self._has_turn = False
            self._say(DONE)

    def exit_at_once(self, status: int) -> None:
        """In place of `os._exit`."""
        self.end()
        self._leave(status)

    def _say(self, word: bytes) -> bytes:
        """Say this, and wait for what the gate says to it; nothing where it is gone."""
        reads, writes = self._ends
        os.write(writes, word)
        return os.read(reads, 1)

    def _close(self) -> None:
        """In a forked child: one that outlives its parent would keep the gate waiting."""
        while self._ends:  # its own children have none
            os.close(self._ends.pop())
