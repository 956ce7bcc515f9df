"""What `perfgate history` shows: at both widths, in blocks and in digits, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from support import records

from perfgate.model.baseline import Blessing, Commit
from perfgate.model.history import Creation, History, MachineHistory, Version, VersionKind
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
    moved_from: str | None = None,
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
        moved_from=moved_from,
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
        6,
        11.4,
        kind=VersionKind.MOVED,
        before=11.4,
        first=12.0,
        anchor_ms=11.4,
        moved_from="perf/baselines/nvidia-h200/mlp.json",
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
    whole = machine(*EVERYTHING).model_copy(
        update={"dropped": ("d" * 40,), "creation": Creation(commit="0" * 40, deleted=("mlp_old",))}
    )
    short = MachineHistory(
        slug="nvidia-l4",
        gpu="NVIDIA L4",
        file="baselines/nvidia-l4/mlp.json",
        versions=(blessed(8, 50.0, "one alone"), blessed(9, 51.0, "two", before=50.0, first=50.0)),
    )
    return history(whole, short).model_copy(update={"shallow": True})


def test_everything_at_80_columns() -> None:
    assert (
        history_text(everything(), width=80, colour=False, blocks=True)
        == """\
mlp on NVIDIA H200: 7 blessings, 2026-03-02 to 2026-03-10
  file        baselines/nvidia-h200/mlp.json
  step_ms     ▅█.?▁▁▄  lowest 11.40, highest 12.60, now 11.97

blessed    by     commit   step_ms    change  anchor kernel_ms reason
---------- ------ -------- ------- --------- ------- --------- -----------------
2026-03-02 Ada... 00000000   12.00               0 %     9.000 first H200...
2026-03-03 Ada... 11111111   12.60    +5.0 %  +5.0 %     9.450 the tokenizer...
2026-03-05 Bob    33333333 deleted                             mlp is gone
2026-03-06 Bob    44444444  unread                             the file...
2026-03-07 Grace  55555555   11.40    -9.5 %     0 %     8.550 fused loss
2026-03-09 Ada... 77777777   11.50 +0.88 % * +0.88 %     8.625 newer nsys
2026-03-10 Ada... none yet   11.97    +4.1 %  +5.0 %     8.978 not pushed
  change: against the one before; anchor: against the best step blessed until
  then
  cut         00000000: this commit or an older one brought it; the clone has no
              more of its history
  unreadable  44444444: the file holds merge-conflict markers (line 3)
  merged      44444444: a merge left it as neither side had it
  re-created  55555555: blessed anew after the deletion
  moved       66666666: from perf/baselines/nvidia-h200/mlp.json
  * not alike 77777777: nsys 2023.4.4, then 2024.2.3
  rewritten   without a new blessing, as by perfgate calibrate: 22222222
  dropped     blessed on a branch, and left out when that was merged: dddddddd
  renamed?    00000000 created it and deleted the baseline of mlp_old, whose
              history is its own:
                perfgate history mlp_old

mlp on NVIDIA L4: 2 blessings, 2026-03-10 to 2026-03-11
  file        baselines/nvidia-l4/mlp.json
  step_ms     ▃▇  lowest 50.00, highest 51.00, now 51.00

blessed     by      commit    step_ms  change   first  kernel_ms  reason
----------  ------  --------  -------  ------  ------  ---------  ---------
2026-03-10  Ada...  88888888    50.00                      37.50  one alone
2026-03-11  Ada...  99999999    51.00  +2.0 %  +2.0 %      38.25  two
  change: against the one before; first: against the first

  history     This clone is shallow: what is older is not in it. Fetch it:
                git fetch --unshallow
"""
    )


def test_a_count_is_told_by_its_difference_and_digits_stand_for_blocks() -> None:
    syncs = [
        blessed(n, 12.0).model_copy(
            update={
                "values": {Metric.STEP_MS: 12.0, Metric.SYNCS: value},
                "change": None if before in (None, 0) else value / before - 1,
                "before": before,
                "first": None if n == 0 else 0,
                "since_first": None if n == 0 or value else 0.0,
            }
        )
        for n, (value, before) in enumerate([(0, None), (2, 0), (3, 2), (0, 3)])
    ]
    assert (
        history_text(
            history(machine(*syncs), metric=Metric.SYNCS), width=80, colour=False, blocks=False
        )
        == """\
mlp on NVIDIA H200: 4 blessings, 2026-03-02 to 2026-03-05
  file        baselines/nvidia-h200/mlp.json
  syncs       1681  lowest 0, highest 3, now 0

blessed     by      commit    syncs  change  first  step_ms  reason
----------  ------  --------  -----  ------  -----  -------  ------
2026-03-02  Ada...  00000000      0                   12.00  faster
2026-03-03  Ada...  11111111      2      +2     +2    12.00  faster
2026-03-04  Ada...  22222222      3      +1     +3    12.00  faster
2026-03-05  Ada...  33333333      0      -3           12.00  faster
  change: against the one before; first: against the first
"""
    )


def test_a_clock_that_is_judged_as_a_share_is_told_in_points() -> None:
    versions = [
        blessed(n, 10.0).model_copy(
            update={
                "values": {Metric.STEP_MS: 10.0, Metric.KERNEL_MS: 7.0, Metric.H2D_MS: value},
                "before": before,
                "change": change,
                "first": before,
                "since_first": change,
                "unlike_first": ("nsys 2023.4.4, then 2024.2.3",) if n else (),
            }
        )
        for n, (value, before, change) in enumerate([(1.0, None, None), (1.2, 1.0, 0.02)])
    ]
    told = history_text(
        history(machine(*versions), metric=Metric.H2D_MS), width=80, colour=False, blocks=True
    )
    assert told.count("+2.0 pp") == 2


def test_what_is_missing_is_told_as_missing() -> None:
    told = history_text(history(machine(blessed(0, None))), width=80, colour=False, blocks=True)
    assert told.splitlines()[2] == "  step_ms     no version has step_ms"
    assert "2026-03-02  Ada...  00000000     none  faster" in told
    partly = machine(blessed(0, 12.0), blessed(1, None), blessed(2, 12.0))
    assert "  step_ms     ▅-▅  lowest 12.00, highest 12.00, now 12.00" in history_text(
        history(partly), width=80, colour=False, blocks=True
    )


def test_a_history_that_is_only_deleted_or_unreadable_is_told() -> None:
    gone = machine(blessed(0, 12.0), bare(1, VersionKind.DELETED))
    text = history_text(history(gone), width=80, colour=False, blocks=True)
    assert text.splitlines()[0] == "mlp on NVIDIA H200: 1 blessing, 2026-03-02; deleted now"
    assert text.splitlines()[2] == "  step_ms     ▅.  lowest 12.00, highest 12.00"
    wreck = machine(bare(1, VersionKind.UNREADABLE, "the baseline has format 0"))
    text = history_text(history(wreck), width=80, colour=False, blocks=True)
    assert text.splitlines()[0] == "mlp on NVIDIA H200: 0 blessings; unreadable now"
    assert text.splitlines()[-1] == "  unreadable  11111111: the baseline has format 0"


def test_without_git_the_reason_is_told_below() -> None:
    alone = history(machine(blessed(0, 12.0, committed=False))).model_copy(
        update={"trouble": "it is not in a git repository"}
    )
    text = history_text(alone, width=80, colour=False, blocks=True)
    assert text.splitlines()[-1] == "  history     There is no more: it is not in a git repository."


def test_a_deletion_without_a_commit_and_a_restored_blessing_are_told() -> None:
    deleted = Version(kind=VersionKind.DELETED, commit=None, path=PATH)
    back = blessed(2, 12.0, kind=VersionKind.RESTORED)
    lines = history_text(
        history(machine(blessed(0, 12.0), back, deleted)), width=80, colour=False, blocks=True
    ).splitlines()
    assert "now                 none yet  deleted             not committed" in lines
    assert "  restored    22222222: an earlier blessing is the baseline again" in lines


def test_several_baselines_that_were_deleted_beside_are_named_without_a_command() -> None:
    whole = machine(blessed(0, 12.0)).model_copy(
        update={"creation": Creation(commit="0" * 40, deleted=("mlp_old", "mlp 2"))}
    )
    text = history_text(history(whole), width=120, colour=False, blocks=True)
    assert text.splitlines()[-1] == (
        "  renamed?    00000000 created it and deleted the baseline of mlp_old, mlp 2"
    )


def test_runs_in_ci_and_added_occasions_are_told_below_the_newest_in_full() -> None:
    first = blessed(0, 12.0)
    assert first.blessing is not None
    in_ci = first.blessing.model_copy(
        update={"run_url": "https://ci.example/runs/7", "runner": "h200-a"}
    )
    versions = [first.model_copy(update={"blessing": in_ci})]
    for number in range(1, 6):
        added = Blessing(
            by="perfgate", at=day(number), reason=f"occasion {number}\nof a week", runner="h200-b"
        )
        more = blessed(number, 12.0 + number / 10, kind=VersionKind.EXTENDED)
        versions.append(
            more.model_copy(
                update={"added": (added,), "runs": 5 + 3 * number, "occasions": 1 + number}
            )
        )
    lines = history_text(
        history(machine(*versions)), width=120, colour=False, blocks=True
    ).splitlines()
    told = "\n".join(lines)
    assert "step_ms     " in told
    assert (
        "lowest 12.00, highest 12.50, now 12.50" in told
    )  # occasions made that of what is in force
    assert lines[-8:] == [
        "  CI run      00000000: https://ci.example/runs/7 on h200-a",
        "  occasion    33333333: 2026-03-05 12:00 UTC by perfgate, now 14 runs over 4 occasions, step_ms 12.30; on h200-b:",
        "              occasion 3 of a week",
        "  occasion    44444444: 2026-03-06 12:00 UTC by perfgate, now 17 runs over 5 occasions, step_ms 12.40; on h200-b:",
        "              occasion 4 of a week",
        "  occasion    55555555: 2026-03-07 12:00 UTC by perfgate, now 20 runs over 6 occasions, step_ms 12.50; on h200-b:",
        "              occasion 5 of a week",
        "  occasions   added before these: 22222222, 11111111",
    ]


def test_many_rewritings_and_drops_are_counted() -> None:
    rewritten = [blessed(n, 12.0, kind=VersionKind.REWRITTEN) for n in range(1, 6)]
    whole = machine(blessed(0, 12.0), *rewritten).model_copy(
        update={"dropped": ("a" * 40, "b" * 40, "c" * 40, "d" * 40)}
    )
    lines = history_text(history(whole), width=120, colour=False, blocks=True).splitlines()
    assert lines[-2:] == [
        (
            "  rewritten   without a new blessing, as by perfgate calibrate: 11111111, 22222222, 33333333 and 2 more"
        ),
        (
            "  dropped     blessed on a branch, and left out when that was merged: "
            "aaaaaaaa, bbbbbbbb, cccccccc and 1 more"
        ),
    ]


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


@given(
    st.lists(st.floats(min_value=0, max_value=1e300), min_size=1, max_size=40),
    st.sampled_from(list(METRICS)),
)
def test_any_series_is_drawn_with_one_character_a_point(
    values: list[float], metric: Metric
) -> None:
    told = drawn(values, metric)
    assert len(told) == len(values)
    assert set(told) <= set(BLOCKS)
    if max(values) > min(values):
        assert BLOCKS.index(told[values.index(max(values))]) >= BLOCKS.index(
            told[values.index(min(values))]
        )


# Widths, colour, hostile text and JSON


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


def test_colour_adds_codes_and_no_text() -> None:
    plain = history_text(everything(), width=80, colour=False, blocks=True)
    coloured = history_text(everything(), width=80, colour=True, blocks=True)
    assert "\x1b[33m" in coloured
    assert "\x1b" not in plain


def test_hostile_text_is_inert() -> None:
    nasty = "\x1b[2J[red]\u202e"
    hostile = machine(
        blessed(0, 12.0, nasty, by=nasty),
        bare(1, VersionKind.DELETED).model_copy(update={"author": nasty, "subject": nasty}),
        bare(2, VersionKind.UNREADABLE, nasty),
        blessed(3, 12.0, unlike=[nasty], moved_from=nasty),
    ).model_copy(
        update={"gpu": nasty, "file": nasty, "creation": Creation(commit=nasty, deleted=(nasty,))}
    )
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


def test_the_schema_of_the_json_is_stable() -> None:
    told = json.loads(history_json(everything()))
    assert list(told) == [
        "format",
        "workload",
        "metric",
        "commit",
        "branch",
        "shallow",
        "trouble",
        "machines",
    ]
    assert told["format"] == 1
    assert list(told["machines"][0]) == ["slug", "gpu", "file", "versions", "dropped", "creation"]
    assert list(told["machines"][0]["versions"][1].items())[:9] == [
        ("kind", "blessed"),
        ("commit", "1" * 40),
        ("at", "2026-03-03T12:00:00Z"),
        ("author", ADA),
        ("subject", "bless"),
        ("merge", False),
        ("at_cut", False),
        ("path", PATH),
        ("moved_from", None),
    ]
    assert list(told["machines"][0]["versions"][1])[9:] == [
        "blessing",
        "runs",
        "occasions",
        "values",
        "anchor_ms",
        "before",
        "change",
        "first",
        "since_first",
        "since_anchor",
        "unlike",
        "unlike_first",
        "fault",
        "added",
    ]
