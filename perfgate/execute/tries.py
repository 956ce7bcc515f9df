"""How often a run or a pair is made before nsys's own breakdowns are taken for an answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from perfgate.model.errors import NsysCrashed

TRIES: Final = 3
"""How often a run is tried in which nsys itself breaks down.

On a busy machine it does so now and then, in one way or another.
"""

Made = TypeVar("Made")


def outlasting_crashes(
    make: Callable[[Callable[[Path], Path]], Made],
    *,
    on_crash: Callable[[NsysCrashed], None] | None = None,
) -> Made:
    """Make a run or a pair, and if nsys itself breaks down, make it again, `TRIES` times in all.

    Args:
        make: makes it, in the folder that its argument returns for the intended one: itself, then fresh ones beside.
        on_crash: told of each crash after which it is made again.

    Raises:
        NsysCrashed: of the last try.
    """
    for number in range(1, TRIES):
        try:
            return make(partial(_folder_of_try, number))
        except NsysCrashed as crashed:
            if on_crash is not None:
                on_crash(crashed)
    return make(partial(_folder_of_try, TRIES))


def _folder_of_try(number: int, folder: Path) -> Path:
    return folder if number == 1 else folder.with_name(f"{folder.name}-try-{number}")
