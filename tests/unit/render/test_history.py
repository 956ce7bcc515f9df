"""What `perfgate history` shows: as text at both widths, and as JSON."""

from __future__ import annotations

from datetime import timedelta

import pytest
from support import records
from syrupy.assertion import SnapshotAssertion

from perfgate.model.history import BlessedVersion, History, MachineHistory
from perfgate.model.metric import Metric
from perfgate.model.note import note
from perfgate.render.history import history_text
from perfgate.render.page import Page


def version(number: int, step_ms: float | None = None, **more: object) -> BlessedVersion:
    """Build a version of step_ms whose commit is its number, eight times."""
    values = {} if step_ms is None else {Metric.STEP_MS: step_ms, Metric.KERNEL_MS: step_ms * 0.75}
    made = {
        "state": "blessed",
        "commit": f"{number}" * 40,
        "at": records.NOON + timedelta(days=number),
        "by": "Ada Lovelace <ada@example.org>",
        "reason": "faster",
        "values": values,
    }
    return BlessedVersion.model_validate(made | more)


UNLIKE = note("history-unlike", name="nsys", then="2023.4.4", now="2024.2.3")
BROKEN = note("baseline-broken", path="loop.json", workload="loop", why="it is empty")
VERSIONS = (
    version(0, 12.0, reason="first H200 baseline", since_anchor=0.0),
    version(
        1, 12.6, reason="the tokenizer\nwas replaced by one that is slower and right", change=0.05
    ),
    version(2, state="deleted", reason="mlp is gone"),
    version(3, state="unreadable", reason="a merge", why=BROKEN),
    version(4, 11.4, change=-0.095, since_anchor=-0.05, unlike=(UNLIKE,)),
    version(5, 11.97, change=0.05, since_anchor=0.05, commit=None, reason="not pushed"),
)


def history(*versions: BlessedVersion) -> History:
    machine = MachineHistory(slug="nvidia-h200", gpu="NVIDIA H200", versions=versions)
    other = MachineHistory(slug="nvidia-l4", gpu="NVIDIA L4", versions=(version(8, 50.0),))
    return History(workload="mlp", metric=Metric.STEP_MS, shallow=True, machines=(machine, other))


@pytest.mark.parametrize("width", [80, 200])
def test_everything(width: int, snapshot: SnapshotAssertion) -> None:
    assert history_text(Page(width=width, colour=False), history(*VERSIONS)) == snapshot


def test_hostile_text_is_escaped() -> None:
    nasty = "\x1b[2J[red]\u202e"
    hostile = version(0, 12.0, by=nasty, reason=nasty, unlike=(note("quoted", text="x"),))
    text = history_text(
        Page(width=200, colour=False),
        history(hostile).model_copy(update={"workload": nasty}),
    )
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert text.startswith("\\x1b[2J[red]\\u202e on ")
