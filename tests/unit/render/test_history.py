"""What `perfgate history` shows: at both widths, in blocks and in digits, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from rich.cells import cell_len
from support import records
from syrupy.assertion import SnapshotAssertion

from perfgate.model.baseline import Blessing, Commit
from perfgate.model.history import History, MachineHistory, Version, VersionKind
from perfgate.model.metric import METRICS, Metric
from perfgate.render.history import BLOCKS, DIGITS, history_json, history_text, sparkline

ADA = "Ada Lovelace <ada@example.org>"
PATH = "baselines/nvidia-h200/mlp.json"


def day(number: int) -> datetime:
    return records.NOON + timedelta(days=number)


def blessed(
    number: int,
    step_ms: float | None,
    reason: str = "faster",
    *,
    kind: VersionKind = VersionKind.BLESSED,
    by: str = ADA,
    committed: bool = True,
    before: float | None = None,
    first: float | None = None,
    anchor_ms: float | None = None,
    unlike: Sequence[str] = (),
) -> Version:
    """Build a version of step_ms whose commit is its number, eight times."""
    values = {} if step_ms is None else {Metric.STEP_MS: step_ms, Metric.KERNEL_MS: step_ms * 0.75}
    return Version(
        kind=kind,
        commit=f"{number % 10}" * 40 if committed else None,
        at=day(number) if committed else None,
        author=by if committed else "",
        subject="bless" if committed else "",
        path=PATH,
        blessing=Blessing(
            by=by, at=day(number), reason=reason, commit=Commit(sha="ab" * 20, dirty=number == 1)
        ),
        runs=10,
        occasions=5,
        values=values,
        anchor_ms=anchor_ms,
        before=before,
        change=None if step_ms is None or before is None else step_ms / before - 1,
        first=first,
        since_first=None if step_ms is None or first is None else step_ms / first - 1,
        since_anchor=None if step_ms is None or anchor_ms is None else step_ms / anchor_ms - 1,
        unlike=tuple(unlike),
    )


def bare(number: int, kind: VersionKind, fault: str = "", *, merge: bool = False) -> Version:
    return Version(
        kind=kind,
        commit=f"{number}" * 40,
        at=day(number),
        author="Bob",
        subject="mlp is gone",
        merge=merge,
        path=PATH,
        fault=fault,
    )


EVERYTHING = (
    blessed(0, 12.0, "first H200 baseline", anchor_ms=12.0).model_copy(update={"at_cut": True}),
    blessed(
        1,
        12.6,
        "the tokenizer\nwas replaced by one that is slower and right",
        before=12.0,
        first=12.0,
        anchor_ms=12.0,
    ),
    blessed(2, 12.6, kind=VersionKind.REWRITTEN, before=12.6, first=12.0, anchor_ms=12.0),
    bare(3, VersionKind.DELETED),
    bare(4, VersionKind.UNREADABLE, "the file holds merge-conflict markers (line 3)", merge=True),
    blessed(
        5,
        11.4,
        "fused loss",
        kind=VersionKind.RECREATED,
        before=12.6,
        first=12.0,
        anchor_ms=11.4,
        by="Grace",
    ),
    blessed(
        7,
        11.5,
        "newer nsys",
        before=11.4,
        first=12.0,
        anchor_ms=11.4,
        unlike=["nsys 2023.4.4, then 2024.2.3"],
    ),
    blessed(8, 11.97, "not pushed", before=11.5, first=12.0, anchor_ms=11.4, committed=False),
)


def machine(*versions: Version) -> MachineHistory:
    return MachineHistory(slug="nvidia-h200", gpu="NVIDIA H200", file=PATH, versions=versions)


def history(*machines: MachineHistory, metric: Metric = Metric.STEP_MS) -> History:
    return History(workload="mlp", metric=metric, commit="8" * 40, branch="main", machines=machines)


def everything() -> History:
    whole = machine(*EVERYTHING).model_copy(update={"dropped": ("d" * 40,)})
    short = MachineHistory(
        slug="nvidia-l4",
        gpu="NVIDIA L4",
        file="baselines/nvidia-l4/mlp.json",
        versions=(blessed(8, 50.0, "one alone"), blessed(9, 51.0, "two", before=50.0, first=50.0)),
    )
    return history(whole, short).model_copy(update={"shallow": True})


def shown(*versions: Version, metric: Metric = Metric.STEP_MS, width: int = 80) -> str:
    of = history(machine(*versions), metric=metric)
    return history_text(of, width=width, colour=False, blocks=True)


@pytest.mark.parametrize("width", [80, 200])
def test_everything(width: int, snapshot: SnapshotAssertion) -> None:
    assert history_text(everything(), width=width, colour=False, blocks=True) == snapshot


def test_a_count_is_shown_by_its_difference(snapshot: SnapshotAssertion) -> None:
    syncs = [
        blessed(n, 12.0).model_copy(
            update={"values": {Metric.SYNCS: value}, "before": before, "first": 0}
        )
        for n, (value, before) in enumerate([(0, None), (2, 0), (3, 2), (0, 3)])
    ]
    assert shown(*syncs, metric=Metric.SYNCS) == snapshot


def test_odd_histories(snapshot: SnapshotAssertion) -> None:
    alone = history(machine(blessed(0, 12.0, committed=False)))
    without_git = alone.model_copy(update={"trouble": "it is not in a git repository"})
    deleted = Version(kind=VersionKind.DELETED, commit=None, path=PATH)
    restored = blessed(2, 12.0, kind=VersionKind.RESTORED)
    texts = {
        "without the metric": shown(blessed(0, None)),
        "deleted": shown(blessed(0, 12.0), bare(1, VersionKind.DELETED)),
        "unreadable": shown(bare(1, VersionKind.UNREADABLE, "the baseline has format 0")),
        "restored, then deleted without a commit": shown(blessed(0, 12.0), restored, deleted),
        "without git": history_text(without_git, width=80, colour=False, blocks=False),
    }
    assert "\n".join(f"# {name}\n{text}" for name, text in texts.items()) == snapshot


def test_of_added_occasions_the_newest_are_shown_in_full(snapshot: SnapshotAssertion) -> None:
    first = blessed(0, 12.0)
    assert first.blessing is not None
    ci = {"run_url": "https://ci.example/runs/7", "runner": "h200-a"}
    versions = [first.model_copy(update={"blessing": first.blessing.model_copy(update=ci)})]
    for n in range(1, 6):
        added = Blessing(by="perfgate", at=day(n), reason=f"occasion {n}\nof a week", runner="b")
        more = blessed(n, 12.0 + n / 10, kind=VersionKind.EXTENDED)
        versions.append(more.model_copy(update={"added": (added,), "occasions": 1 + n}))
    assert shown(*versions, width=120) == snapshot


# The series


def drawn(
    values: Sequence[float],
    metric: Metric = Metric.STEP_MS,
    *,
    longest: int = 80,
    blocks: bool = True,
) -> str:
    versions = [
        blessed(n, value).model_copy(update={"values": {metric: value}})
        for n, value in enumerate(values)
    ]
    return sparkline(machine(*versions), metric, longest=longest, blocks=blocks)


def test_heights_lie_between_the_lowest_and_the_highest() -> None:
    assert drawn(range(10, 18)) == BLOCKS
    assert drawn(range(10, 18), blocks=False) == DIGITS
    assert drawn([10, 20, 10]) == "▁█▁"


def test_noise_of_a_clock_is_flat_and_any_change_of_a_count_is_seen() -> None:
    assert drawn([10.00, 10.02, 9.99]) == "▅▅▅"
    assert drawn([1_000_000, 1_000_001], Metric.H2D_BYTES) == "▁█"
    assert drawn([5, 5], Metric.SYNCS) == "▅▅"
    assert drawn([0, 0], Metric.GAP_MS) == "▅▅"


def test_of_a_long_series_the_newest_are_drawn() -> None:
    assert drawn([*range(10, 100), 10, 99], longest=2) == "▁█"
    text = history_text(
        history(machine(*(blessed(n, 12.0) for n in range(500)))),
        width=80,
        colour=False,
        blocks=True,
    )
    assert {cell_len(line) for line in text.splitlines() if "▅" in line} == {80}


@pytest.mark.parametrize("width", [80, 100, 120, 200])
@pytest.mark.parametrize("metric", list(METRICS))
def test_no_line_is_wider_than_the_screen(width: int, metric: Metric) -> None:
    versions = [
        version.model_copy(
            update={
                "values": dict.fromkeys(METRICS, 12345.678),
                "before": 1.0,
                "change": 9.87,
                "first": 1.0,
            }
            | {"since_first": -0.5, "unlike": ("x",), "unlike_first": ("x",)}
            if version.blessing is not None
            else {}
        )
        for version in EVERYTHING
    ]
    long = [
        version.model_copy(update={"author": "Maximilian-Alexander von und zu Hohenheim"})
        for version in versions
    ]
    text = history_text(
        history(machine(*long), metric=metric), width=width, colour=False, blocks=True
    )
    assert [line for line in text.splitlines() if cell_len(line) > width] == []


def test_hostile_text_is_escaped() -> None:
    nasty = "\x1b[2J[red]\u202e"
    hostile = machine(
        blessed(0, 12.0, nasty, by=nasty),
        bare(1, VersionKind.DELETED).model_copy(update={"author": nasty, "subject": nasty}),
        bare(2, VersionKind.UNREADABLE, nasty),
        blessed(3, 12.0, unlike=[nasty]),
    ).model_copy(update={"gpu": nasty, "file": nasty})
    whole = history(hostile).model_copy(update={"workload": nasty, "trouble": nasty})
    text = history_text(whole, width=200, colour=False, blocks=True)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert text.startswith("\\x1b[2J[red]\\u202e on ")


def test_json_is_read_back_as_it_was() -> None:
    text = history_json(everything())
    assert History.model_validate_json(text) == everything()
    assert text.isascii()
    assert text.endswith("}\n")
