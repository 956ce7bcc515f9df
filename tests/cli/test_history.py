"""`perfgate history`: what a user sees of a project in git, from wherever in it, and where there is
none."""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from support import records
from support.project import Project
from support.repository import IDENTITY

from perfgate import cli
from perfgate.model.history import History
from perfgate.model.machine import Machine
from perfgate.model.metric import METRICS, Metric
from perfgate.store import baseline_text


class Blessed:
    """A project in git, in which baselines are blessed a day apart."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.top = project.root
        self.within = ""
        """Where the project lies in the repository, with a final slash."""
        for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
            project.patch.setenv(name, "/dev/null")
        project.patch.setenv("GIT_CEILING_DIRECTORIES", str(self.top.parent))
        self._days = 0

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ("git", *IDENTITY, *words), cwd=self.top, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def start(self) -> None:
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit()

    def commit(self, message: str = "a commit") -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)

    def put(
        self, step_ms: float, reason: str, *, name: str = "loop", on: Machine | None = None
    ) -> Path:
        self._days += 1
        run = {Metric.STEP_MS: step_ms, Metric.KERNEL_MS: step_ms * 0.75}
        at = records.NOON + timedelta(days=self._days)
        made = records.baseline([run] * 5, name=name, on=on, at=at, reason=reason)
        return self.project.write(
            f"{self.within}baselines/{made.machine.slug}/{name}.json", baseline_text(made)
        )

    def bless(
        self, step_ms: float, reason: str, *, name: str = "loop", on: Machine | None = None
    ) -> None:
        self.put(step_ms, reason, name=name, on=on)
        self.commit(f"bless: {reason}")

    def alike(self, text: str) -> str:
        """Make commits the same on every day: each is its number in the history, as often as it is
        long."""
        shas = self.git("rev-list", "--reverse", "HEAD").splitlines()
        for number, sha in enumerate(shas):
            for length in (40, 12, 8):
                text = text.replace(sha[:length], str(number % 10) * length)
        return text


@pytest.fixture
def blessed(here: Project) -> Blessed:
    made = Blessed(here)
    here.write(".gitignore", ".out\n.err\n.perfgate/\n__pycache__/\n")
    made.start()
    return made


def story(blessed: Blessed) -> None:
    """Bless on two machines, delete, bless anew, and leave one uncommitted."""
    blessed.bless(12.0, "first H200 baseline")
    blessed.bless(50.0, "first L4 baseline", on=records.machine("NVIDIA L4"))
    blessed.bless(12.6, "the tokenizer was replaced by one that is slower, and right")
    blessed.git("rm", "--quiet", "baselines/nvidia-h200/loop.json")
    blessed.commit("loop is no longer measured")
    blessed.bless(11.4, "fused loss")
    blessed.project.write("baselines/nvidia-h200/loop.json", "<<<<<<< ours\n{\n")
    blessed.commit("merge")
    blessed.bless(11.5, "mended")
    blessed.put(11.7, "newer torch")


def test_a_story_at_80_columns(blessed: Blessed) -> None:
    story(blessed)
    seen = blessed.project.perfgate("history", "loop", columns=80)
    assert (seen.status, seen.err) == (0, "")
    assert (
        re.sub(r"\d{4}-\d\d-\d\d(?= +Ada +[46]{8} )", "THEN      ", blessed.alike(seen.out))
        == """\
loop on NVIDIA L4: 1 blessing, 2026-03-04
  file        baselines/nvidia-l4/loop.json
  step_ms     ▅  lowest 50.00, highest 50.00, now 50.00

blessed     by   commit    step_ms  kernel_ms  reason
----------  ---  --------  -------  ---------  -----------------
2026-03-04  Ada  22222222    50.00      37.50  first L4 baseline

loop on NVIDIA H200: 5 blessings, 2026-03-03 to 2026-03-08
  file        baselines/nvidia-h200/loop.json
  step_ms     ▅█.▁?▁▂  lowest 11.40, highest 12.60, now 11.70

blessed    by  commit   step_ms  change  first kernel_ms reason
---------- --- -------- ------- ------- ------ --------- -----------------------
2026-03-03 Ada 11111111   12.00                    9.000 first H200 baseline
2026-03-05 Ada 33333333   12.60  +5.0 % +5.0 %     9.450 the tokenizer was...
THEN       Ada 44444444 deleted                          loop is no longer...
2026-03-06 Ada 55555555   11.40  -9.5 % -5.0 %     8.550 fused loss
THEN       Ada 66666666  unread                          the file holds...
2026-03-07 Ada 77777777   11.50 +0.88 % -4.2 %     8.625 mended
2026-03-08 Ada none yet   11.70  +1.7 % -2.5 %     8.775 newer torch
  change: against the one before; first: against the first
  re-created  55555555: blessed anew after the deletion
  unreadable  66666666: the file holds merge-conflict markers (line 1)
"""
    )


def test_a_story_at_200_columns(blessed: Blessed) -> None:
    story(blessed)
    seen = blessed.project.perfgate("history", "loop", columns=200)
    assert (seen.status, seen.err) == (0, "")
    assert (
        re.sub(
            r"\d{4}-\d\d-\d\d \d\d:\d\d UTC(?=.* [46]{12} )",
            "THEN                ",
            blessed.alike(seen.out),
        )
        == """\
loop on NVIDIA L4: 1 blessing, 2026-03-04
  file        baselines/nvidia-l4/loop.json
  step_ms     ▅  lowest 50.00, highest 50.00, now 50.00

blessed               by                     commit        code          step_ms  kernel_ms  runs  reason
--------------------  ---------------------  ------------  ------------  -------  ---------  ----  -----------------
2026-03-04 12:05 UTC  Ada <ada@example.org>  222222222222  0123456789ab    50.00      37.50   5/1  first L4 baseline
  code: checked out then, + if with changes; runs: of how many occasions

loop on NVIDIA H200: 5 blessings, 2026-03-03 to 2026-03-08
  file        baselines/nvidia-h200/loop.json
  step_ms     ▅█.▁?▁▂  lowest 11.40, highest 12.60, now 11.70

blessed               by                     commit        code          step_ms   change   first  kernel_ms  runs  reason
--------------------  ---------------------  ------------  ------------  -------  -------  ------  ---------  ----  -----------------------------------------------------------
2026-03-03 12:05 UTC  Ada <ada@example.org>  111111111111  0123456789ab    12.00                       9.000   5/1  first H200 baseline
2026-03-05 12:05 UTC  Ada <ada@example.org>  333333333333  0123456789ab    12.60   +5.0 %  +5.0 %      9.450   5/1  the tokenizer was replaced by one that is slower, and right
THEN                  Ada <ada@example.org>  444444444444                deleted                                    loop is no longer measured
2026-03-06 12:05 UTC  Ada <ada@example.org>  555555555555  0123456789ab    11.40   -9.5 %  -5.0 %      8.550   5/1  fused loss
THEN                  Ada <ada@example.org>  666666666666                 unread                                    the file holds merge-conflict markers (line 1)
2026-03-07 12:05 UTC  Ada <ada@example.org>  777777777777  0123456789ab    11.50  +0.88 %  -4.2 %      8.625   5/1  mended
2026-03-08 12:05 UTC  Ada <ada@example.org>  none yet      0123456789ab    11.70   +1.7 %  -2.5 %      8.775   5/1  newer torch
  change: against the one before; first: against the first; code: checked out then, + if with changes; runs: of how many occasions
  re-created  55555555: blessed anew after the deletion
  unreadable  66666666: the file holds merge-conflict markers (line 1)
"""
    )


@pytest.mark.parametrize("metric", list(METRICS))
def test_any_metric_can_be_asked_for(blessed: Blessed, metric: Metric) -> None:
    blessed.bless(12.0, "first")
    blessed.bless(12.6, "second")
    seen = blessed.project.perfgate("history", "loop", "--metric", metric.value)
    assert seen.status == 0
    assert re.search(rf"^  {metric.value} +\S", seen.out, re.MULTILINE)
    # Of a metric that no version has the row is there, and says so.
    assert ("no version has" in seen.out) is (metric not in records.VALUES)


def test_an_unknown_metric_is_a_usage_error_that_names_all(blessed: Blessed) -> None:
    seen = blessed.project.perfgate("history", "loop", "--metric", "steps")
    assert seen.status == 2
    assert all(f"'{metric}'" in seen.err for metric in METRICS)


def test_json_is_the_same_as_a_document(blessed: Blessed) -> None:
    story(blessed)
    seen = blessed.project.perfgate("history", "loop", "--json")
    assert (seen.status, seen.err) == (0, "")
    history = History.model_validate_json(seen.out)
    assert (history.workload, history.metric, history.branch) == ("loop", Metric.STEP_MS, "main")
    assert history.commit == blessed.git("rev-parse", "HEAD")
    by = {
        machine.slug: [version.kind.value for version in machine.versions]
        for machine in history.machines
    }
    assert by == {
        "nvidia-l4": ["blessed"],
        "nvidia-h200": [
            "blessed",
            "blessed",
            "deleted",
            "re-created",
            "unreadable",
            "blessed",
            "blessed",
        ],
    }
    assert json.loads(seen.out)["format"] == 1


@pytest.mark.parametrize(
    ("encoding", "drawn"), [("utf-8", "▁█"), ("ascii", "18"), ("latin-1", "18")]
)
def test_a_terminal_without_blocks_gets_digits_and_no_name_is_lost(
    blessed: Blessed, monkeypatch: pytest.MonkeyPatch, encoding: str, drawn: str
) -> None:
    blessed.bless(12.0, "first")
    blessed.bless(13.0, "größer")
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding=encoding, errors="strict")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as left:
        cli.main(["history", "loop"])
    assert left.value.code == 0
    out.flush()
    told = raw.getvalue().decode(encoding)
    assert f"  step_ms     {drawn}  lowest 12.00, highest 13.00, now 13.00" in told
    assert ("gr\\xf6\\xdfer" if encoding == "ascii" else "größer") in told


def test_it_works_from_a_subfolder(blessed: Blessed) -> None:
    blessed.bless(12.0, "first")
    whole = blessed.project.perfgate("history", "loop")
    blessed.project.patch.chdir(blessed.project.root / "workloads")
    assert blessed.project.perfgate("history", "loop") == whole
    assert whole.status == 0


def test_it_works_in_a_monorepo(blessed: Blessed) -> None:
    project = blessed.project
    blessed.bless(50.0, "of another project in it")
    project.write("services/train/pyproject.toml", '[project]\nname = "train"\nversion = "1"\n')
    blessed.within = "services/train/"
    blessed.bless(12.0, "first")
    blessed.bless(13.0, "second")
    project.patch.chdir(project.root / "services" / "train")
    seen = project.perfgate("history", "loop", "--json")
    (machine,) = History.model_validate_json(seen.out).machines
    assert [version.values[Metric.STEP_MS] for version in machine.versions] == [12.0, 13.0]
    assert machine.file == "baselines/nvidia-h200/loop.json"
    assert machine.versions[0].path == "services/train/baselines/nvidia-h200/loop.json"


def test_a_renamed_folder_begins_a_new_history(blessed: Blessed) -> None:
    blessed.bless(12.0, "first")
    blessed.git("mv", "baselines", "perf")
    blessed.project.write(
        "pyproject.toml", '[project]\nname = "x"\n[tool.perfgate]\nbaselines = "perf"\n'
    )
    blessed.commit()
    seen = blessed.project.perfgate("history", "loop", columns=80)
    assert seen.status == 0
    assert "  file        perf/nvidia-h200/loop.json\n" in seen.out


def test_without_a_repository_what_is_there_is_shown_and_the_code_says_so(here: Project) -> None:
    made = Blessed(here)
    made.put(12.0, "first")
    seen = here.perfgate("history", "loop", columns=80)
    assert (
        seen.out
        == """\
loop on NVIDIA H200: 1 blessing, 2026-03-03
  file        baselines/nvidia-h200/loop.json
  step_ms     ▅  lowest 12.00, highest 12.00, now 12.00

blessed     by   commit    step_ms  kernel_ms  reason
----------  ---  --------  -------  ---------  ------
2026-03-03  Ada  none yet    12.00      9.000  first

  history     There is no more: it is not in a git repository.
"""
    )
    assert seen.status == 25
    assert seen.err.startswith("perfgate: /project/baselines: it is not in a git repository.")
    document = here.perfgate("history", "loop", "--json")
    assert (History.model_validate_json(document.out).trouble, document.status) == (
        "it is not in a git repository",
        25,
    )


def test_without_git_the_same(blessed: Blessed, tmp_path: Path) -> None:
    blessed.bless(12.0, "first")
    blessed.project.patch.setenv("PATH", str(tmp_path))
    seen = blessed.project.perfgate("history", "loop")
    assert "There is no more: there is no git on the PATH." in seen.out
    assert (seen.err.splitlines()[-1], seen.status) == ("Install git.", 25)


def test_a_shallow_clone_says_that_its_history_is_cut(blessed: Blessed, tmp_path: Path) -> None:
    blessed.bless(12.0, "first")
    blessed.bless(13.0, "second")
    blessed.git("clone", "--quiet", "--depth=1", blessed.top.as_uri(), str(tmp_path / "shallow"))
    blessed.project.patch.chdir(tmp_path / "shallow")
    seen = blessed.project.perfgate("history", "loop", columns=80)
    assert seen.status == 0
    assert seen.out.splitlines()[-2:] == [
        "  history     This clone is shallow: what is older is not in it. Fetch it:",
        "                git fetch --unshallow",
    ]
    assert "  cut         22222222: this commit or an older one brought it" in blessed.alike(
        seen.out
    )


def test_a_workload_that_never_had_a_baseline_is_told_with_a_near_name(blessed: Blessed) -> None:
    blessed.bless(12.0, "first")
    seen = blessed.project.perfgate("history", "lop")
    assert (seen.out, seen.err, seen.status) == (
        "",
        "perfgate: lop: it never had a baseline here. Perhaps you meant loop.\nLook there: perfgate history loop\n",
        18,
    )


def test_what_bless_writes_is_the_last_point(blessed: Blessed) -> None:
    project = blessed.project
    code = hashlib.sha256((project.root / "workloads" / "loops.py").read_bytes()).hexdigest()
    project.measures(*records.runs(), code=[{"workloads/loops.py": code}])
    project.gate()
    assert project.perfgate("bless", "--reason", "measured here").status == 0
    seen = project.perfgate("history", "loop", columns=200)
    assert (seen.status, seen.err) == (0, "")
    (row,) = [line for line in seen.out.splitlines() if line.endswith("measured here")]
    assert "none yet" in row
    assert "12.34" in row
