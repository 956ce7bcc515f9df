"""What is said of pairs that were pinned early and late, and in which order they are made; none is made here."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.moods import pinning
from benchmarks.moods.pinning import EARLY, LATE, MadePair, begins, load, main, mode, summary


def pair(mode: str, difference: float, *, wall_s: float) -> MadePair:
    return MadePair(
        mode=mode,
        begins="reference",
        wall_s=wall_s,
        runs_s=wall_s,
        reference_ms=2.8,
        candidate_ms=2.8 * math.exp(difference / 100),
        remarks=(),
    )


def test_modes_take_turns_and_each_begins_with_either_side_as_often() -> None:
    assert [mode(number) for number in range(8)] == [EARLY, LATE, LATE, EARLY] * 2
    for one in (EARLY, LATE):
        sides = [begins(number) for number in range(16) if mode(number) == one]
        assert sides.count("reference") == sides.count("candidate") == 4


def test_a_line_a_mode_tells_time_spread_and_mean() -> None:
    early = [
        pair(EARLY, difference, wall_s=20 + index)
        for index, difference in enumerate((-1.0, 1.0, 0.0))
    ]
    late = [pair(LATE, difference, wall_s=10) for difference in (-2.0, 2.5, 1.0)]
    assert summary([*early, *late]).splitlines()[2:] == [
        "| early | 3 | 21.0 (20.0 to 22.0) | 2.800 | 1.00 (0.58 to 4.42) | +0.00 ± 0.58 |",
        "| late | 3 | 10.0 (10.0 to 10.0) | 2.800 | 2.29 (1.32 to 10.12) | +0.50 ± 1.32 |",
    ]


def test_of_one_pair_no_spread_is_told() -> None:
    assert len(summary([pair(EARLY, 1.0, wall_s=20)]).splitlines()) == 2


def test_a_difference_is_that_of_the_logarithms() -> None:
    assert pair(LATE, 2.0, wall_s=1).difference == pytest.approx(2.0)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Pairs are made of nothing; their numbers."""
    numbers: list[int] = []

    def make(_bench: object, _workload: object, number: int, **_: object) -> MadePair:
        numbers.append(number)
        return pair(mode(number), 0.1 * number, wall_s=20)

    monkeypatch.setattr(pinning, "prepared", lambda *_: (SimpleNamespace(), None))
    monkeypatch.setattr(pinning, "told_machine", lambda _: {"gpus": ["NVIDIA H200"]})
    monkeypatch.setattr(pinning, "make_pair", make)
    return numbers


def test_a_second_call_goes_on_with_the_pairs_of_the_first(
    made: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "pinning.json"
    main(["--pairs", "1", "--out", str(out)])
    main(["--pairs", "3", "--out", str(out)])
    assert made == [0, 1, 2, 3, 4, 5]
    machine, pairs = load(out)
    assert machine == {"gpus": ["NVIDIA H200"]}
    assert [one.mode for one in pairs] == [EARLY, LATE, LATE, EARLY, EARLY, LATE]
    capsys.readouterr()
    main(["--pairs", "3", "--out", str(out)])
    assert len(made) == 6
    assert capsys.readouterr().out == f"{summary(pairs)}\n"


def test_pairs_of_another_machine_are_not_gone_on_with(made: list[int], tmp_path: Path) -> None:
    out = tmp_path / "pinning.json"
    out.write_text(
        json.dumps({"machine": {"gpus": []}, "pairs": [asdict(pair(EARLY, 1.0, wall_s=20))]})
    )
    with pytest.raises(SystemExit, match="its pairs were made on another machine"):
        main(["--pairs", "3", "--out", str(out)])
    out.write_text("[]")
    with pytest.raises(SystemExit, match="it holds no pairs"):
        main(["--out", str(out)])
    assert made == []
