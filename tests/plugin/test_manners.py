"""How a gate behaves as a guest in pytest: what it shows, where, and how it ends."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import time
from contextlib import ExitStack
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import psutil
import pytest
from support import records
from support.processes import until
from support.project import LOOP, Project
from syrupy.assertion import SnapshotAssertion

from perfgate.machine import gpu_lock
from perfgate.model.metric import Metric
from perfgate.model.note import Severity, note, quoted
from perfgate.model.outcome import Outcome
from perfgate.model.pagedata import PageData, page_data_text
from perfgate.plugin.progress import Progress
from perfgate.render.html import page_html

MORE_COPIES = records.run({Metric.H2D_COPIES: 3})
SLEEPER = """\
import os, time
from perfgate import workload

@workload(steps=4, warmup=1)
def loop(steps):
    for _ in steps:
        print("at work", flush=True)
        time.sleep(60)
"""


@pytest.fixture
def blessed(project: Project) -> Project:
    """A project whose one workload has a baseline, on an H200, and is unchanged."""
    project.unchanged()
    return project


PASSED = "PASSED  loop  step_ms 12.34  +0.0 % []  budget 2 %  5 runs\n"


def unjudged(summary: str) -> str:
    """A summary without the ends of its intervals."""
    return re.sub(r"\[[^]]*\]  budget", "[]  budget", summary)


def test_a_gate_that_opens_says_so_in_its_last_line(blessed: Project) -> None:
    seen = blessed.gate()
    assert seen.status == 0
    assert unjudged(seen.summary) == f"{PASSED}GATE OPEN: 1 PASSED\n"


def test_what_the_runs_did_not_count_is_reported_of_what_passed(blessed: Project) -> None:
    notes = (
        note("cpu-runs-ahead", Severity.ROUTINE, range_ms=5.0, step_ms=12.0),
        quoted("3 ranges are not counted", Severity.WARN),
    )
    blessed.measures(records.run().model_copy(update={"notes": notes}))
    seen = blessed.gate()
    assert seen.status == 0
    assert seen.summary.count("note: ") == seen.summary.count("note: 3 ranges are not counted") == 1


def test_progress_is_a_plain_line_a_run_where_nobody_watches(blessed: Project) -> None:
    lines = blessed.gate(columns=80).out.splitlines()
    start = lines.index("workloads/loops.py ")
    assert lines[start + 1] == "  loop: 5 runs"
    runs = [line for line in lines[start:] if line.startswith("  loop run ")]
    assert runs == [
        f"  loop run {n} of 5: step_ms 12.34, kernel_ms 9.100, gap_ms 1.851 (0.0 s)"
        for n in range(1, 6)
    ]


def test_a_failing_workload_shows_its_table_and_no_traceback(blessed: Project) -> None:
    blessed.measures(MORE_COPIES)
    seen = blessed.gate(columns=100)
    assert seen.failures.splitlines()[:3] == [
        "__ loop __",
        "loop: REGRESSED (2 runs against 5 blessed)",
        "  h2d_copies 2 to 3; step_ms unchanged (12.34 ms).",
    ]
    assert seen.failures.splitlines()[4].split()[:3] == ["metric", "baseline", "now"]
    assert "Traceback" not in seen.out
    assert "bench.py" not in seen.out
    reason = (
        " - loop: REGRESSED (2 runs against 5 blessed)" if pytest.version_tuple >= (9,) else ""
    )  # pytest's doing
    assert f"FAILED workloads/loops.py::loop{reason}" in seen.out.splitlines()


@pytest.mark.parametrize(
    "option",
    ["-v", "-q", "-qq", "-vv", "-rA", "--tb=no", "--tb=native", "--tb=line", "-s", "--color=yes"],
)
@pytest.mark.parametrize("status", [0, 1])
def test_the_gate_is_reported_open_or_shut_under_every_kind_of_output(
    blessed: Project, option: str, status: int
) -> None:
    blessed.measures(MORE_COPIES if status else records.run())
    seen = blessed.gate(option)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", seen.out)
    assert (
        "GATE SHUT: 1 REGRESSED of 1 workload" if status else "GATE OPEN: 1 PASSED"
    ) in plain.splitlines()
    assert (seen.status, "Traceback" in plain) == (status, False)


def test_an_outcome_that_the_settings_let_through_is_shown_with_its_table(
    blessed: Project, snapshot: SnapshotAssertion
) -> None:
    (blessed.root / "baselines" / "nvidia-h200" / "loop.json").unlink()
    seen = blessed.gate("--perfgate-new=allow", columns=100)
    assert seen.status == 0
    assert seen.summary == snapshot


def test_what_was_skipped_and_never_blessed_is_reported_and_keeps_nothing_shut(
    blessed: Project, snapshot: SnapshotAssertion
) -> None:
    marks = {
        "never": 'skip(reason="needs two\\nGPUs")',
        "unrun": 'xfail(reason="slow", run=False)',
        "mute": "skip",
    }
    for name, mark in marks.items():
        text = LOOP.replace("@workload", f"@pytest.mark.{mark}\n@workload").replace(
            "def loop", f"def {name}"
        )
        blessed.workload(f"import pytest\n{text}", file=f"{name}.py")
    blessed.workload(
        "import pytest\npytest.skip('no data', allow_module_level=True)\n", file="zoo.py"
    )
    seen = blessed.gate()
    assert seen.status == 0
    assert unjudged(seen.summary) == snapshot


def test_secrets_that_were_withheld_are_named(blessed: Project) -> None:
    blessed.measures(MORE_COPIES, withheld=("HF_TOKEN", "WANDB_API_KEY"))
    shown = blessed.gate().failures
    assert "HF_TOKEN and WANDB_API_KEY" in shown
    assert "pass_env" in shown


def test_a_bug_of_perfgate_is_shown_as_one_and_opens_nothing(blessed: Project) -> None:
    blessed.measures(ZeroDivisionError("a bug"))
    seen = blessed.gate()
    assert ["E", "ZeroDivisionError:", "a", "bug"] in [
        line.split() for line in seen.failures.splitlines()
    ]
    assert (seen.status, "expected-not-measured" in seen.codes) == (1, True)


def test_an_item_that_is_run_again_gets_no_second_verdict(blessed: Project) -> None:
    blessed.write(
        "conftest.py",
        "from _pytest.runner import runtestprotocol\n\n"
        "def pytest_runtest_protocol(item, nextitem):\n"
        "    runtestprotocol(item, nextitem=nextitem, log=False)\n"
        "    for report in runtestprotocol(item, nextitem=nextitem, log=False):\n"
        "        item.ihook.pytest_runtest_logreport(report=report)\n"
        "    return True\n",
    )
    measured = blessed.measures(MORE_COPIES, MORE_COPIES, records.run())
    seen = blessed.gate()
    assert (seen.status, seen.summary.splitlines()[-1]) == (
        1,
        "GATE SHUT: 1 REGRESSED of 1 workload",
    )
    assert measured == ["loop", "loop"]


# Documents


def test_junit_xml_bears_the_numbers(blessed: Project) -> None:
    blessed.measures(MORE_COPIES)
    blessed.gate("--junit-xml=out.xml")
    (case,) = ElementTree.parse(blessed.root / "out.xml").iter("testcase")
    shown = {entry.get("name"): entry.get("value") for entry in case.iter("property")}
    assert shown["perfgate.outcome"] == "REGRESSED"
    assert shown["perfgate.h2d_copies.baseline"] == "2.0"
    assert shown["perfgate.h2d_copies.now"] == "3.0"
    failure = case.find("failure")
    assert failure is not None
    assert (failure.text or "").startswith("loop: REGRESSED (2 runs against 5 blessed)\n")


def test_the_json_document_holds_verdicts_and_runs(blessed: Project) -> None:
    blessed.measures(MORE_COPIES)
    assert blessed.gate("--perfgate-json=out/gate.json").status == 1
    document = blessed.written("out/gate.json")
    (shown,) = document.workloads
    assert (document.opens_gate, document.exit_status) == (False, 1)
    assert document.machine is not None
    assert document.machine.gpu_name == "NVIDIA H200"
    assert (shown.verdict.workload, shown.verdict.outcome, shown.opens_gate) == (
        "loop",
        Outcome.REGRESSED,
        False,
    )
    assert shown.baseline == "baselines/nvidia-h200/loop.json"
    assert shown.files is not None
    assert (blessed.root / shown.files / "result.json").is_file()
    assert [run.values[Metric.H2D_COPIES] for run in shown.runs] == [3.0, 3.0]


def test_the_json_document_is_written_from_where_pytest_was_started(blessed: Project) -> None:
    blessed.write("pytest.ini", "[pytest]\n")
    (blessed.root / "sub").mkdir()
    blessed.patch.chdir(blessed.root / "sub")
    blessed.gate("--perfgate-json=gate.json")
    assert (blessed.root / "sub" / "gate.json").is_file()


def test_the_markdown_is_appended_to_what_others_wrote(blessed: Project) -> None:
    summary = blessed.write("summary.md", "# The job\n")
    blessed.measures(MORE_COPIES)
    assert blessed.gate("--perfgate-markdown=summary.md").status == 1
    shown = summary.read_text("utf-8")
    assert shown.startswith("# The job\n## perfgate: gate \u274c shut\n")
    assert "| `loop` | \u274c REGRESSED | 12.34 |" in shown
    blessed.gate("--perfgate-markdown=summary.md")
    assert summary.read_text("utf-8").startswith(shown)


def test_the_document_says_where_a_workload_stands_and_at_which_commit(blessed: Project) -> None:
    blessed.workload(
        "command: [true]\nstep: x\nsteps: 3\nwarmup: 0\ncapture: all\n", file="script.yaml"
    )
    sha = blessed.commit()
    document = blessed.document("--perfgate-label=h200", "--perfgate-new=allow")
    where = {one.verdict.workload: (one.source, one.line) for one in document.workloads}
    assert where == {"loop": ("workloads/loops.py", 4), "script": ("workloads/script.yaml", 1)}
    assert document.commit is not None
    assert (document.commit.sha, document.commit.branch, document.commit.dirty) == (
        sha,
        "main",
        False,
    )
    assert (document.label, document.shard, document.gates) == ("h200", None, ())


def test_the_pages_data_is_that_of_the_page_and_of_the_document(blessed: Project) -> None:
    blessed.measures(MORE_COPIES)
    asked = (
        "--perfgate-json=gate.json",
        "--perfgate-html=gate.html",
        "--perfgate-page-data=out/page.json",
    )
    assert blessed.gate(*asked).status == 1
    document = blessed.written("gate.json")
    text = (blessed.root / "out" / "page.json").read_text("utf-8")
    data = PageData.model_validate_json(text)
    assert page_data_text(data) == text
    assert [one.verdict for one in data.workloads] == [one.verdict for one in document.workloads]
    assert (data.started_at, data.shut_by, data.machine) == (
        document.started_at,
        document.shut_by,
        document.machine,
    )
    assert data.workloads[0].baseline is not None
    assert data.workloads[0].commands[0] == "pytest --perfgate workloads/loops.py::loop"
    assert page_html(data) == (blessed.root / "gate.html").read_text("utf-8")
    assert blessed.gate(*asked).status == 1  # over its own


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--perfgate-markdown=workloads"], "output-unwritable"),
        (["--perfgate-json="], "output-unwritable"),
        (["--perfgate-page-data=pyproject.toml/a.json"], "output-unwritable"),
    ],
)
def test_a_file_without_a_place_of_its_own_is_refused_before_anything_is_measured(
    blessed: Project, arguments: list[str], code: str
) -> None:
    made = blessed.measures(MORE_COPIES)
    seen = blessed.gate(*arguments)
    assert (seen.status, made, seen.codes) == (4, [], {code})


def test_a_result_is_kept_and_git_is_asked_to_leave_it_alone(blessed: Project) -> None:
    blessed.gate()
    kept = blessed.kept()
    assert len(kept.runs) == 5
    assert (blessed.root / ".perfgate" / ".gitignore").read_text("utf-8") == "*\n"


# Side by side


@pytest.mark.parametrize(
    "options",
    [("-n", "auto"), ("-n", "2"), ("--tx=2*popen", "--dist=load"), ("-f",), ("--forked",)],
    ids=str,
)
def test_what_would_run_workloads_together_or_again_is_a_usage_error(
    blessed: Project, options: tuple[str, ...]
) -> None:
    blessed.write(
        "conftest.py",
        "def pytest_addoption(parser):\n    parser.addoption('--forked', action='store_true')\n",
    )
    seen = blessed.gate(*options)
    assert (seen.status, seen.codes) == (4, {"option-not-in-a-gate"})


def test_a_second_gate_says_whom_it_waits_for_and_takes_its_turn(blessed: Project) -> None:
    with ExitStack() as first:
        first.enter_context(
            gpu_lock(blessed.machine.gpus, timeout_s=1, on_wait=print, workload="resnet18")
        )
        clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: first.close())
        blessed.patch.setattr("perfgate.machine.lock.time", clock)
        seen = blessed.gate()
    assert seen.status == 0
    assert "pid 1 of ada, workload resnet18, since THEN" in seen.out


# Real processes


def running_below(folder: Path) -> list[str]:
    """Command lines of processes that name a folder or stand in it."""
    found: list[str] = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            if process.pid != os.getpid() and any(
                str(folder) in word for word in [*words, process.cwd()]
            ):
                found.append(" ".join(words))
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


@pytest.mark.nsys
@pytest.mark.usefixtures("real_nsys")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_all_that_was_started_and_the_gate_is_shut(
    project: Project, number: signal.Signals
) -> None:
    project.workload(SLEEPER)
    gate = project.start("--perfgate", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        until(
            lambda: any(
                "--perfgate-worker" in line and "profile" not in line
                for line in running_below(project.root)
            )
        )
        time.sleep(1)
        gate.send_signal(number)
        out, _ = gate.communicate(timeout=60)
    except BaseException:
        os.killpg(gate.pid, signal.SIGKILL)
        raise
    seen = project.alike(out).splitlines()
    assert "GATE SHUT: interrupted" in seen
    assert gate.returncode == 2
    until(lambda: not running_below(project.root), timeout_s=10)


@pytest.mark.nsys
@pytest.mark.usefixtures("real_nsys")
def test_a_terminal_shows_a_live_line_and_keeps_one_line_a_run(project: Project) -> None:
    project.workload()
    project.patch.setenv("TERM", "xterm-256color")
    project.patch.delenv("PY_COLORS")
    ours, theirs = pty.openpty()
    gate = project.start(
        "--perfgate", "--perfgate-runs=1", stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    raw = b""
    while True:
        ready, _, _ = select.select([ours], [], [], 240)
        assert ready, "it said nothing for four minutes"
        try:
            raw += os.read(ours, 65536)
        except OSError:  # the other end was closed
            break
    os.close(ours)
    text = raw.decode()
    assert gate.wait(60) == 1
    assert "loop run 1 of 1 under nsys ..." in text
    assert "\x1b[1;31mGATE SHUT\x1b[0m: 1 NO_BASELINE of 1 workload" in text
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
    assert re.search(
        r"^\r?  loop run 1 of 1: step_ms \d+\.\d+ \(\d+\.\d s\)\r?$", plain, re.MULTILINE
    )


def test_the_live_line_says_how_much_of_the_plan_is_left() -> None:
    out = StringIO()
    progress = Progress(out, live=True, width=100)
    with progress.of("loop"):
        progress.plan([note("plan-time", seconds=30.5, at_most=None)])
        with progress.run("run 1 of 3"):
            pass
        shown = out.getvalue()
    assert "loop run 1 of 3 under nsys, about 30 s left ..." in shown


SLOW_AT_FIRST = """\
import time
from perfgate import workload

@workload(steps=16, warmup={warmup})
def loop(steps):
    for turn in steps:
        time.sleep(0.2 if turn < 6 else 0.01)
"""


@pytest.mark.nsys
@pytest.mark.usefixtures("real_nsys")
def test_a_warmup_that_is_too_short_is_invalid_and_a_longer_one_is_not(project: Project) -> None:
    project.workload(SLOW_AT_FIRST.format(warmup=1))
    seen = project.run("--perfgate", "--perfgate-runs=1")
    assert seen.status == 1
    assert "loop: INVALID (1 run)" in seen.failures
    shown = " ".join(seen.failures.split())
    slow = re.search(r"of the measured 16, [a-z ]+ \d+, took up to ([0-9.,]+) ms", shown)
    assert slow is not None
    assert float(slow[1]) >= 200
    project.workload(SLOW_AT_FIRST.format(warmup=6))
    assert "loop: NO_BASELINE (1 run)" in project.run("--perfgate", "--perfgate-runs=1").failures


@pytest.mark.parametrize("by", ["argument", "PYTEST_ADDOPTS"])
def test_a_file_given_with_a_space_does_not_choose_the_project(
    blessed: Project, tmp_path_factory: pytest.TempPathFactory, by: str
) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "pyproject.toml").write_text('[project]\nname = "other"\n', encoding="utf-8")
    summary = other / "summary.md"
    assert blessed.gate(f"--perfgate-markdown={summary}").status == 0
    assert summary.exists()
    if by == "argument":
        seen = blessed.gate("--perfgate-markdown", summary)
    else:
        blessed.patch.setenv("PYTEST_ADDOPTS", f"--perfgate-markdown {summary}")
        seen = blessed.run("--perfgate")
    assert seen.status == 4
    assert f"pytest takes {other} for the project" in seen.err


@pytest.mark.parametrize(
    "question",
    [
        "--help",
        "--version",
        "-VV",
        "--markers",
        "--fixtures",
        "--fixtures-per-test",
        "--cache-show",
    ],
)
def test_what_only_asks_pytest_is_answered_and_no_gate(project: Project, question: str) -> None:
    project.workload()
    project.gpus()
    measured = project.measures(records.run())
    seen = project.gate(question, *(["-p", "cacheprovider"] if question == "--cache-show" else []))
    assert (seen.status, measured, "GATE" in seen.out + seen.err) == (0, [], False)
