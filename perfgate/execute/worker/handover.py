"""How processes that are alive at once take turns, so that only one of them works at any time: the
two of an A/B run of blocks, or one that is held and the gate that holds it."""

from __future__ import annotations

import os
import select
import weakref
from typing import Final

from perfgate.execute.script_hold import DONE, READY, TURN
from perfgate.execute.worker.endings import Abandoned
from perfgate.model.order import Blocks, Hold


class Handover:
    """One side's end of the two FIFOs by which processes work in turns.

    ```
    begins      |warm-up|.......|start, block|...........|block|....|stop      . waits
    the other   |.......|warm-up|...........|start, block|....|block|stop

    held        |start of Python and CUDA|.....|build, warm-up, steps|.....|stop
    held late   |start of Python and CUDA, build, warm-up|.....|steps|.....|stop
    ```

    Whoever has taken all its steps waits for the other to have done so too: the end of a process is
    work as well.
    """

    _LONGEST_MS: Final = 2**31 - 1
    """What poll can count to."""

    def __init__(self, by: Blocks | Hold) -> None:
        self._begins = isinstance(by, Blocks) and by.begins
        self._patience_s = by.patience_s if isinstance(by, Blocks) else None
        """For the other side of a pair; None of a gate, which lets go of what it holds: its end is
        the end of the file."""
        # Opened so, it does not wait for the other side to be there.
        own = os.open(by.own, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(own, True)
        self._own: int | None = own
        # Also for reading: that waits for nobody, and what is written before the other side is
        # there is kept for it.
        self._other = os.open(by.other, os.O_RDWR | os.O_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(own, select.POLLIN)
        self.is_alone = False
        """Whether the other side has taken all its steps."""
        self.abandoned: Abandoned | None = None
        """Why no turn is to be expected any more."""
        leave = weakref.WeakMethod(self.leave)
        # A loader's process that outlives this one would keep the file open; and what it does is no
        # handing over.
        os.register_at_fork(after_in_child=lambda: (bound := leave()) and bound())

    def begin(self) -> None:
        """Wait, on the side that does not begin, for the first turn; does nothing the second time.

        Raises:
            Abandoned: it does not come.
        """
        if not self._begins:
            if self._patience_s is None:
                self._say(READY)
            self._wait()
            self._begins = True

    def hand_over(self) -> None:
        """Give the turn away and wait for the next; at once where the other side needs none any
        more.

        Raises:
            Abandoned: it does not come.
        """
        if not self.is_alone:
            self._say(TURN)
            self._wait()

    def end(self) -> None:
        """Hand over for good, and keep still until the other side is through as well; how it ends
        is its own affair."""
        if self._own is not None:
            self._say(DONE)
            while not self.is_alone and self._hear() == TURN:
                pass
            self.leave()

    def leave(self) -> None:
        """Let go, also before the end, as a process that is killed does: the other side knows by
        the end of the file. Does nothing the second time."""
        if self._own is not None:
            os.close(self._own)
            os.close(self._other)
            self._own = None

    def _wait(self) -> None:
        heard = self._hear()
        if heard == DONE:
            self.is_alone = True
        elif heard != TURN:
            self.abandoned = (
                Abandoned("other-side-silent", limit_s=self._patience_s)
                if heard is None
                else Abandoned("other-side-ended")
            )
            raise self.abandoned

    def _hear(self) -> bytes | None:
        """What the other side says next, nothing where it is gone; None if it keeps silent for too
        long."""
        if self._own is None:
            return None
        # Of a gate that was gone before this was opened poll would say nothing.
        if self._patience_s is not None:
            patience_ms = min(1000 * self._patience_s, self._LONGEST_MS)
            if not self._poll.poll(patience_ms):
                return None
        return os.read(self._own, 1)

    def _say(self, word: bytes) -> None:
        os.write(self._other, word)
