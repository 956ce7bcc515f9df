"""Gates of unchanged code in a row: how many are made, what is kept of each, what is shown; none is made here."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import records

from benchmarks.unchanged import __main__ as door
from benchmarks.unchanged.__main__ import (
    GUESSED_S,
    Ended,
    Recording,
    Series,
    UnchangedGate,
    gate,
    gate_in_shards,
    load,
    main,
    markdown,
)
from perfgate.model.document import DocumentRun, DocumentWorkload, GateDocument, document_text
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.settings import Settings
from perfgate.model.verdict import MetricVerdict, Stage, Verdict

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
H200 = records.machine()


def document(outcome: Outcome = Outcome.PASSED) -> GateDocument:
    rows = (
        MetricVerdict(
            metric=Metric.STEP_MS,
            outcome=Outcome.PASSED,
            baseline=3.0,
            now=3.003,
            change=0.00123456,
        ),
        MetricVerdict(metric=Metric.GAP_MS, outcome=None, now=0.1),
        MetricVerdict(
            metric=Metric.SYNCS, outcome=Outcome.PASSED, baseline=1.0, now=1.0, change=0.0
        ),
    )
    verdict = Verdict(
        workload="mlp", outcome=outcome, reason="why.", metrics=rows, runs=3, stage=Stage.SCREEN
    )
    run = DocumentRun(started_at=NOW, wall_s=9.0, values={Metric.STEP_MS: 3.0})
    return GateDocument(
        perfgate="0.1.0",
        started_at=NOW,
        ended_at=NOW,
        opens_gate=outcome is Outcome.PASSED,
        exit_status=0 if outcome is Outcome.PASSED else 1,
        settings=Settings(),
        workloads=(DocumentWorkload(verdict=verdict, opens_gate=True, runs=(run,) * 3),),
    )


class Maker:
    """Makes gates of nothing, each in its seconds on a clock of its own."""

    def __init__(self, path: Path, *, takes_s: float = 500.0) -> None:
        self.now = 0.0
        self.said: list[str] = []
        self.ends: list[Ended] = []
        self.takes_s = takes_s
        self.path = path

    def __call__(self) -> Ended:
        self.now += self.takes_s
        return self.ends.pop(0) if self.ends else Ended(exit_status=0, documents=(document(),))

    def take(self, gates: int, *, seconds: float = 1e9, commit: str = "c0ffee") -> bool:
        series = Series(
            path=self.path,
            machine=H200,
            commit=commit,
            make=self,
            say=self.said.append,
            clock=lambda: self.now,
        )
        return series.take(gates, seconds=seconds)


def project(folder: Path, slug: str = H200.slug) -> Path:
    """A project with a file for a baseline of one machine."""
    (folder / "baselines" / slug).mkdir(parents=True)
    (folder / "baselines" / slug / "mlp.json").write_text("{}", encoding="utf-8")
    return folder


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path / "record.json")


def test_gates_are_made_until_there_are_so_many_and_a_second_call_goes_on(maker: Maker) -> None:
    assert not maker.take(3, seconds=GUESSED_S + 410)
    assert len(load(maker.path).gates) == 2
    assert maker.said[-1] == "2 of 3 gates are made; a further one would take 500 s"
    assert maker.take(3)
    assert maker.take(3)
    made = load(maker.path).gates
    assert [one.has_passed for one in made] == [True] * 3
    assert made[0].workloads[0].changes == {Metric.STEP_MS: 0.001235}
    assert made[0].workloads[0].runs == 3


def test_no_gate_is_begun_for_which_there_is_not_the_time(maker: Maker) -> None:
    assert not maker.take(3, seconds=GUESSED_S - 1)
    assert load(maker.path) == Recording()


def test_gates_of_another_commit_are_kept_and_stand_for_none_of_this(maker: Maker) -> None:
    maker.take(1, commit="0ther")
    maker.take(2)
    assert [one.commit for one in load(maker.path).gates] == ["0ther", "c0ffee", "c0ffee"]


def test_a_gate_that_is_killed_is_in_the_record(maker: Maker) -> None:
    def killed() -> Ended:
        raise KeyboardInterrupt

    maker.take(1)
    with pytest.raises(KeyboardInterrupt):
        Series(path=maker.path, machine=H200, commit="c0ffee", make=killed).take(2, seconds=1e9)
    maker.take(2)
    told = markdown([load(maker.path)])
    assert "- gate 2: " in told
    assert "not at its end; commit c0ffee, NVIDIA H200" in told
    assert "2 of 3 PASSED as a whole, 1 of them in a row." in told


def test_what_did_not_pass_is_told_with_its_reason(maker: Maker) -> None:
    maker.ends = [
        Ended(exit_status=0, documents=(document(Outcome.INCONCLUSIVE),)),
        Ended(exit_status=4, documents=()),
    ]
    maker.take(3)
    assert maker.said == [
        "gate 1 of 3: exit status 0, 1 workloads, 500 s",
        "gate 2 of 3: exit status 4, 0 workloads, 500 s",
        "gate 3 of 3: PASSED, 1 workloads, 500 s",
    ]
    lines = markdown([load(maker.path)]).splitlines()
    assert "1 of 3 PASSED as a whole, 1 of them in a row." in lines
    assert lines[-6:] == [
        "| workload | gate | outcome | runs | step_ms |",
        "| --- | ---: | --- | ---: | ---: |",
        "| mlp | 1 | INCONCLUSIVE | 3 | +0.12 % |",
        "| mlp | 3 | PASSED | 3 | +0.12 % |",
        "",
        "- gate 1, mlp: why.",
    ]


def test_a_gate_without_workloads_has_not_passed() -> None:
    assert not UnchangedGate(at=NOW, machine=H200, exit_status=0).has_passed


def test_a_gate_is_a_users_and_its_document_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commands: list[Sequence[str]] = []

    def run(command: Sequence[str], *, cwd: Path, check: bool) -> SimpleNamespace:
        assert (cwd, check) == (tmp_path, False)
        commands.append(command)
        told = command[4].removeprefix("--perfgate-json=")
        Path(told).write_text(document_text(document()), encoding="utf-8")
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", run)
    assert gate(tmp_path) == Ended(exit_status=0, documents=(document(),))
    assert commands[0][1:4] == ["-m", "pytest", "--perfgate"]
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=4))
    assert gate(tmp_path) == Ended(exit_status=4, documents=())


def test_shards_are_gated_at_once_on_a_gpu_and_cores_each_and_merged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cores = {2, 3, 5, 8}
    started: list[tuple[Sequence[str], str, set[int]]] = []
    merged: list[Sequence[str]] = []

    class Shard:
        def __init__(self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> None:
            assert not merged
            started.append((command, env["CUDA_VISIBLE_DEVICES"], allowed[-1]))
            self.told = Path(command[4].removeprefix("--perfgate-json="))

        def wait(self) -> None:
            assert len(started) == 2
            self.told.write_text(document_text(document()), encoding="utf-8")

    def merge(command: Sequence[str], *, cwd: Path, check: bool) -> SimpleNamespace:
        merged.append(command)
        return SimpleNamespace(returncode=1)

    allowed = [cores]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(allowed[-1]))
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, given: allowed.append(set(given)))
    monkeypatch.setattr(subprocess, "Popen", Shard)
    monkeypatch.setattr(subprocess, "run", merge)
    ended = gate_in_shards(tmp_path, ["GPU-0", "GPU-1"], ["workloads/mlp.py"])
    assert ended == Ended(exit_status=1, documents=(document(), document()))
    assert [(gpu, given) for _, gpu, given in started] == [("GPU-0", {2, 3}), ("GPU-1", {5, 8})]
    assert [command[5:] for command, _, _ in started] == [
        ["workloads/mlp.py", "--perfgate-shard=1/2"],
        ["workloads/mlp.py", "--perfgate-shard=2/2"],
    ]
    assert allowed[-1] == cores
    (words,) = merged
    assert words[2:4] == ["perfgate", "merge"]
    assert [Path(place).name for place in words[4:6]] == ["shard-1", "shard-2"]
    assert words[6:] == ["--expect", "2"]


def test_a_gate_in_shards_stands_for_none_of_one_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two = H200.model_copy(
        update={"gpus": (H200.gpus[0], H200.gpus[0].model_copy(update={"uuid": "GPU-1"}))}
    )
    machines = [H200, two, two]
    monkeypatch.setattr(door, "read_machine", lambda *_, **__: machines.pop(0))
    monkeypatch.setattr(door, "find_nsys", lambda *_: SimpleNamespace(version="2025.3.1"))
    monkeypatch.setattr(door, "read_commit", lambda _: None)
    monkeypatch.setattr(door, "gate", lambda *_: Ended(exit_status=0, documents=(document(),)))
    ended = Ended(exit_status=0, documents=(document(), document()))
    monkeypatch.setattr(door, "gate_in_shards", lambda *_: ended)
    project(tmp_path, two.slug)
    words = [
        "run",
        str(tmp_path / "record.json"),
        "--gates",
        "1",
        "--project",
        str(project(tmp_path)),
    ]
    with pytest.raises(SystemExit):
        main([*words, "--shards"])
    assert "--shards: 1 GPUs are visible, and shards are for several" in capsys.readouterr().err
    assert main(words) == 0
    assert main([*words, "--shards"]) == 0
    alone, in_shards = load(tmp_path / "record.json").gates
    assert (alone.shards, len(alone.workloads)) == (1, 1)
    assert (in_shards.shards, len(in_shards.workloads)) == (2, 2)
    told = markdown([load(tmp_path / "record.json")])
    assert f"- gate 2: {in_shards.at:%Y-%m-%d %H:%M} in 2 shards, a GPU each, exit status 0" in told


def test_the_door_writes_the_table_and_tells_what_is_missing(
    maker: Maker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["table", str(maker.path), "--out", str(tmp_path / "RESULTS.md")])
    assert capsys.readouterr().err.endswith(f"{maker.path}: there is no gate in it\n")
    maker.take(1)
    assert main(["table", str(maker.path), "--out", str(tmp_path / "RESULTS.md")]) == 0
    assert (tmp_path / "RESULTS.md").read_text(encoding="utf-8") == markdown([load(maker.path)])
    maker.path.write_text("{", encoding="utf-8")
    with pytest.raises(SystemExit, match="it is no record of gates"):
        load(maker.path)


def test_run_exits_1_where_gates_are_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(door, "read_machine", lambda *_, **__: H200)
    monkeypatch.setattr(door, "find_nsys", lambda *_: SimpleNamespace(version="2025.3.1"))
    monkeypatch.setattr(door, "read_commit", lambda _: None)
    monkeypatch.setattr(door, "gate", lambda *_: Ended(exit_status=0, documents=(document(),)))
    words = [
        "run",
        str(tmp_path / "record.json"),
        "--gates",
        "2",
        "--project",
        str(project(tmp_path)),
    ]
    assert main([*words, "--seconds", "1"]) == 1
    assert main(words) == 0
    assert [one.commit for one in load(tmp_path / "record.json").gates] == [None, None]


def test_the_committed_table_is_what_the_record_says() -> None:
    folder = Path(door.__file__).parent
    told = (folder / "RESULTS.md").read_text(encoding="utf-8")
    assert told == markdown([load(folder / "h200.json"), load(folder / "h100.json")]), (
        "table h200.json h100.json"
    )
    assert "-0.00 %" not in told


def test_gates_of_some_workloads_stand_for_none_of_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(door, "read_machine", lambda *_, **__: H200)
    monkeypatch.setattr(door, "find_nsys", lambda *_: SimpleNamespace(version="2025.3.1"))
    monkeypatch.setattr(door, "read_commit", lambda _: None)
    made: list[Sequence[str]] = []

    def gate_of(_: Path, only: Sequence[str]) -> Ended:
        made.append(only)
        return Ended(exit_status=0, documents=(document(),))

    monkeypatch.setattr(door, "gate", gate_of)
    words = [
        "run",
        str(tmp_path / "record.json"),
        "--gates",
        "1",
        "--project",
        str(project(tmp_path)),
    ]
    assert main([*words, "--only", "workloads/mlp.py", "--guess", "300", "--seconds", "299"]) == 1
    assert main([*words, "--only", "workloads/mlp.py", "--guess", "300", "--seconds", "301"]) == 0
    assert main(words) == 0
    assert [list(only) for only in made] == [["workloads/mlp.py"], []]
    gates = load(tmp_path / "record.json").gates
    assert [one.only for one in gates] == [("workloads/mlp.py",), ()]
    told = markdown([load(tmp_path / "record.json")])
    assert f"- gate 1: {gates[0].at:%Y-%m-%d %H:%M} of workloads/mlp.py, exit status 0" in told
    assert json.loads((tmp_path / "record.json").read_text(encoding="utf-8"))["format"] == 1


def test_a_record_that_would_change_the_project_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        door, "read_commit", lambda _: SimpleNamespace(sha="c0ffee" * 7, dirty=False)
    )
    monkeypatch.setattr(
        door, "ignored", lambda _, paths: {path for path in paths if path.startswith("kept/")}
    )
    monkeypatch.setattr(door, "read_machine", lambda *_, **__: H200)
    monkeypatch.setattr(door, "find_nsys", lambda *_: SimpleNamespace(version="2025.3.1"))
    monkeypatch.setattr(door, "gate", lambda *_: Ended(exit_status=0, documents=(document(),)))
    words = ["--gates", "1", "--project", str(project(tmp_path))]
    with pytest.raises(SystemExit) as left:
        main(["run", str(tmp_path / "record.json"), *words])
    assert left.value.code == 2
    assert (
        "a record in the project is a change of it; write it elsewhere" in capsys.readouterr().err
    )
    (tmp_path / "kept").mkdir()
    assert main(["run", str(tmp_path / "kept" / "record.json"), *words]) == 0
    assert [one.commit for one in load(tmp_path / "kept" / "record.json").gates] == ["c0ffeec0ffee"]


def test_no_gate_is_begun_that_could_not_tell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    h100 = H200.model_copy(
        update={"gpus": (H200.gpus[0].model_copy(update={"name": "NVIDIA H100 80GB HBM3"}),)}
    )
    machines = [h100, H200]
    monkeypatch.setattr(door, "read_commit", lambda _: None)
    monkeypatch.setattr(door, "read_machine", lambda *_, **__: machines.pop(0))
    monkeypatch.setattr(door, "find_nsys", lambda *_: SimpleNamespace(version="2025.3.1"))
    root = tmp_path / "project"
    root.mkdir()
    words = ["run", str(tmp_path / "record.json"), "--project", str(project(root))]
    with pytest.raises(SystemExit, match="2"):
        main(words)
    told = "no baseline is of NVIDIA H100 80GB HBM3 (there are: nvidia-h200); run it where they were blessed"
    assert told in capsys.readouterr().err
    monkeypatch.setattr(
        door, "read_commit", lambda _: SimpleNamespace(sha="c0ffee" * 7, dirty=True)
    )
    monkeypatch.setattr(door, "changes", lambda _, **__: ("a.py", "b.py", "c.py", "d.py"))
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert (
        "it has changes that no commit holds (a.py, b.py, c.py); commit or ignore them"
        in capsys.readouterr().err
    )
    assert not (tmp_path / "record.json").exists()
