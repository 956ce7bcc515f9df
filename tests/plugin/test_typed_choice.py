"""What leaves workloads out of a gate: what a person types on its command line, and nothing that
stands elsewhere."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support import records
from support.project import LOOP, Project, loops

from perfgate.model.document import PartChosen
from perfgate.model.metric import Metric
from perfgate.model.sample import Run

pytestmark = pytest.mark.behaviour

SLOW = loops("slow").replace("@workload", "@pytest.mark.slow\n@workload")
SLOW = SLOW.replace("import time", "import time\nimport pytest")
MARKS = "markers = slow\n"

STANDING = (
    "-m 'not slow'",
    "-k loop",
    "--deselect=workloads/slow.py::slow",
    "--ignore=workloads/slow.py",
    "--ignore-glob='*slow*'",
    "--perfgate-shard=1/2",
    "workloads/loops.py",
    "-n auto --pdb -qm 'not slow'",
    "--co",
    "--fixtures",
    "--setup-plan",
    "--markers",
    "--version",
)
"""Options in `addopts` or PYTEST_ADDOPTS that would leave `slow` out."""

HOOKS = {
    "deselects by a word": """
def pytest_collection_modifyitems(config, items):
    gone = [item for item in items if item.name == "slow"]
    items[:] = [item for item in items if item.name != "slow"]
    config.hook.pytest_deselected(items=gone)
""",
    "deselects last of all": """
import pytest
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config, items):
    yield
    config.hook.pytest_deselected(items=[item for item in items if item.name == "slow"])
    items[:] = [item for item in items if item.name != "slow"]
""",
    "drops": (
        "def pytest_collection_modifyitems(items):\n"
        "    items[:] = [one for one in items if one.name != 'slow']\n"
    ),
    "drops from the session": (
        "def pytest_collection_finish(session):\n"
        "    session.items[:] = [one for one in session.items if one.name != 'slow']\n"
    ),
    "ignores": (
        "def pytest_ignore_collect(collection_path):\n"
        "    return True if collection_path.name == 'slow.py' else None\n"
    ),
    "collect_ignore_glob": "collect_ignore_glob = ['*slow*']\n",
    "sets -m": "def pytest_configure(config):\n    config.option.markexpr = 'not slow'\n",
    "sets the arguments": (
        "def pytest_sessionstart(session):\n    session.config.args = ['workloads/loops.py']\n"
    ),
    "skips": """
import pytest
def pytest_collection_modifyitems(items):
    for item in items:
        if item.name == "slow":
            item.add_marker(pytest.mark.skip(reason="slow"))
""",
}


@pytest.fixture
def two(project: Project) -> list[str]:
    """Two workloads with baselines, of which `slow` has come to copy more; who is measured."""
    project.gpus()
    project.workload(LOOP)
    project.workload(SLOW, file="slow.py")
    for name in ("loop", "slow"):
        source = "workloads/loops.py" if name == "loop" else "workloads/slow.py"
        project.bless(project.baseline(name).model_copy(update={"source": source}))
    project.write("pytest.ini", f"[pytest]\n{MARKS}")
    slower = records.run({Metric.H2D_COPIES: 3})

    def run() -> Run:
        return slower if asked[-1] == "slow" else records.run()

    asked = project.measures(run)
    return asked


@pytest.mark.parametrize(
    ("place", "options"),
    [*(("addopts", options) for options in STANDING), ("PYTEST_ADDOPTS", "-k loop -m 'not slow'")],
)
def test_a_standing_selection_leaves_nothing_out(
    project: Project, two: list[str], place: str, options: str
) -> None:
    if place == "addopts":
        project.write("pytest.ini", f"[pytest]\n{MARKS}addopts = {options}\n")
    else:
        project.patch.setenv("PYTEST_ADDOPTS", options)
    seen = project.gate()
    assert seen.status == 1
    assert set(two) == {"loop", "slow"}
    assert "REGRESSED  slow" in seen.summary


@pytest.mark.parametrize("flag", ["--lf", "--sw"])
def test_nor_does_a_standing_look_at_what_failed_last(
    project: Project, two: list[str], flag: str
) -> None:
    cached = ("-p", "cacheprovider", "-p", "stepwise")
    assert project.gate(*cached, "--sw", "workloads/slow.py").status != 0
    project.write("pytest.ini", f"[pytest]\n{MARKS}addopts = {flag}\n")
    two.clear()
    assert project.gate(*cached).status == 1
    assert set(two) == {"loop", "slow"}
    two.clear()
    seen = project.gate(*cached, "--lf")
    assert (seen.status, set(two), "orphan" in seen.codes) == (1, {"slow"}, False)


@pytest.mark.parametrize(
    "setting", ["norecursedirs = more", "testpaths = workloads/loops.py", "python_files = loops.py"]
)
def test_nor_does_a_setting_of_pytests(project: Project, two: list[str], setting: str) -> None:
    (project.root / "workloads/more").mkdir()
    (project.root / "workloads/slow.py").rename(project.root / "workloads/more/slow.py")
    project.write("pytest.ini", f"[pytest]\n{MARKS}{setting}\n")
    assert project.gate().status == 1


@pytest.mark.parametrize("text", HOOKS.values(), ids=HOOKS)
def test_what_a_hook_leaves_out_is_missed_whatever_is_chosen(
    project: Project, two: list[str], text: str
) -> None:
    project.write("conftest.py", text)
    assert project.gate("-k", "slow or loop").status == 1


def test_what_a_hook_deselects_without_a_baseline_here_is_none_that_is_missed(
    project: Project, two: list[str]
) -> None:
    """A workload for two GPUs, say, on a machine with one."""
    project.store.baselines.path("nvidia-h200", "slow").unlink()
    project.write("conftest.py", HOOKS["deselects by a word"])
    assert project.gate().status == 0


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        (("-k", "loop"), "-k"),
        (("-m", "not slow"), "-m"),
        (("--deselect", "workloads/slow.py"), "--deselect"),
        (("workloads/loops.py",), "path"),
        (("workloads/loops.py::loop",), "path"),
        (("workloads/loops.py", "-k", "loop"), "path and -k"),
        (("--perfgate-shard=1/2",), "--perfgate-shard"),
    ],
    ids=str,
)
def test_what_is_typed_narrows_the_gate_which_says_so(
    project: Project, two: list[str], arguments: tuple[str, ...], flag: str
) -> None:
    seen = project.gate(*arguments)
    assert (seen.status, set(two)) == (0, {"loop"})
    assert f"1 of 2 workloads, chosen by {flag}\n" in seen.summary


def test_a_whole_gate_is_no_choice(project: Project, two: list[str]) -> None:
    project.store.baselines.path("nvidia-h200", "slow").unlink()
    (project.root / "workloads/slow.py").unlink()
    for arguments in ((), ("workloads",), (".",)):
        document = project.document(*arguments)
        assert (document.exit_status, document.choice) == (0, None)


@pytest.mark.parametrize("plugin", ["setuponly", "setupplan", "cacheprovider"])
def test_plugins_whose_options_are_not_heeded_may_be_off(
    project: Project, two: list[str], plugin: str
) -> None:
    seen = project.gate("-p", f"no:{plugin}", "-k", "loop")
    assert (seen.status, set(two)) == (0, {"loop"})


def test_what_is_typed_outranks_what_stands(project: Project, two: list[str]) -> None:
    project.write(
        "pytest.ini", f"[pytest]\n{MARKS}addopts = -m slow -k slow --ignore=workloads/loops.py\n"
    )
    seen = project.gate("-m", "not slow")
    assert (seen.status, set(two)) == (0, {"loop"})
    assert "1 of 2 workloads, chosen by -m\n" in seen.summary


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ((), 1),
        (("-k", "loop"), 1),
        (("workloads",), 1),
        (("workloads/loops.py",), 1),
        (("workloads/loops.py", "-k", "loop"), 1),
        (("workloads/loops.py::loop",), 0),
        (("--perfgate-shard=1/1",), 1),
    ],
    ids=str,
)
def test_a_deleted_workload_is_missed_where_the_choice_would_have_covered_it(
    project: Project, two: list[str], arguments: tuple[str, ...], status: int
) -> None:
    project.store.baselines.path("nvidia-h200", "slow").unlink()
    (project.root / "workloads/slow.py").unlink()
    project.bless(project.baseline("gone").model_copy(update={"source": "workloads/loops.py"}))
    seen = project.gate(*arguments)
    assert seen.status == status
    assert ("orphan" in seen.codes) is bool(status)


def test_help_that_stands_is_an_error_and_no_success(project: Project, two: list[str]) -> None:
    project.patch.setenv("PYTEST_ADDOPTS", "--help")
    assert project.gate().status == 1
    assert not two


LOOSER = (
    *(
        "--perfgate-new=allow",
        "--perfgate-budget=step_ms=0.9",
        "--perfgate-inconclusive=fail",
        "--perfgate-runs=1",
    ),
    *(
        "--perfgate-max-runs=1",
        "--perfgate-timeout=5",
        "--perfgate-time-budget=900",
        "--perfgate-machine=no-gpu",
    ),
    *(
        "--perfgate-against=HEAD",
        "--perfgate-base=none",
        "--perfgate-nsys=none",
        "--perfgate-keep-captures",
    ),
)
SETS_OPTIONS = """
def pytest_configure(config):
    looser = {"perfgate_new": "allow", "perfgate_budget": ["step_ms=0.9"], "perfgate_max_runs": "1"}
    vars(config.option).update(looser)
"""
LOOKS_LATER = (
    "def pytest_collection_finish(session):\n    session.config.option.collectonly = True\n"
)


@pytest.mark.parametrize("place", ["addopts", "PYTEST_ADDOPTS", "conftest.py"])
def test_what_a_gate_is_held_to_does_not_stand_in_options(
    project: Project, two: list[str], place: str
) -> None:
    project.store.baselines.path("nvidia-h200", "loop").unlink()

    def held(*arguments: str) -> tuple[object, ...]:
        document = project.document("-k", "loop", *arguments)
        (one,) = document.workloads
        held_to = document.exit_status, document.settings, document.machine
        return (*held_to, one.verdict.outcome, len(one.runs))

    found = held()
    assert found[0] == 1
    if place == "addopts":
        project.write("pytest.ini", f"[pytest]\n{MARKS}addopts = {' '.join(LOOSER)}\n")
    elif place == "PYTEST_ADDOPTS":
        project.patch.setenv("PYTEST_ADDOPTS", " ".join(LOOSER))
    else:
        project.write("conftest.py", SETS_OPTIONS)
    assert held() == found
    assert "--perfgate-new" in project.gate().out
    typed = held("--perfgate-new=allow", "--perfgate-budget=step_ms=0.5", "--perfgate-max-runs=5")
    assert typed[0] == 0
    assert typed[1] != found[1]


def test_a_conftest_that_turns_a_gate_into_a_look_opens_none(
    project: Project, two: list[str]
) -> None:
    project.write("conftest.py", LOOKS_LATER)
    assert project.gate("-k", "loop").status == 1
    assert not two


def test_files_that_a_gate_writes_may_stand(project: Project, two: list[str]) -> None:
    project.write("pytest.ini", f"[pytest]\n{MARKS}addopts = --perfgate-json=gate.json\n")
    assert project.gate("-k", "loop").status == 0
    assert (project.root / "gate.json").exists()


def test_what_was_chosen_stands_in_every_file_of_the_gate(project: Project, two: list[str]) -> None:
    files = (
        "--perfgate-json=one/perfgate.json",
        "--perfgate-html=gate.html",
        "--perfgate-markdown=gate.md",
    )
    assert project.gate(*files, "-k", "loop", "workloads/loops.py").status == 0
    choice = PartChosen(by=("path", "-k"), workloads=1, of=2)
    assert project.written("one/perfgate.json").choice == choice
    sentence = "1 of 2 workloads, chosen by path and -k"
    assert sentence in (project.root / "gate.html").read_text()
    assert sentence.replace("-", "\\-") in (project.root / "gate.md").read_text()
    assert project.perfgate("merge", "one", "--json=merged.json").status == 0
    merged = project.written("merged.json")
    assert merged.choice is None
    assert [sentence in one for one in merged.information].count(True) == 1


@pytest.mark.nsys
@pytest.mark.usefixtures("real_nsys")
def test_a_real_run_is_not_stopped_by_what_is_for_a_projects_tests(project: Project) -> None:
    project.workload(LOOP)
    options = (
        "-n 2 --lf --sw -k other --pdb -x --maxfail=1 --dist=loadfile --ignore=workloads/loops.py"
    )
    project.write("pytest.ini", f"[pytest]\naddopts = {options}\n")
    project.patch.setenv("PYTEST_ADDOPTS", "-n auto --sw -m slow")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--perfgate",
        "--perfgate-new=allow",
        "--perfgate-runs=1",
    ]
    done = subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=False)
    assert (done.returncode, "NO_BASELINE" in done.stdout) == (0, True), done.stdout + done.stderr
