"""What a gate collects, and what plain pytest leaves alone."""

from __future__ import annotations

import faulthandler
import hashlib
import json
import sys
import textwrap
from collections.abc import Sequence

import pytest
from support import records
from support.project import LOOP, Project

from perfgate.gate import Closing
from perfgate.model.metric import Metric
from perfgate.model.note import Severity, note
from perfgate.model.sample import Run
from perfgate.plugin.gate_side import with_exit_status

PARAMETRISED = """\
import pytest
from perfgate import workload

@workload(steps=4, warmup=1)
@pytest.mark.parametrize("pinned", [False, True], ids=["pageable", "pinned"])
@pytest.mark.parametrize("batch", [4, 64])
def copies(steps, batch, pinned):
    for _ in steps:
        pass
"""

KINDS_OF_VALUES = """\
import pytest
from collections import namedtuple
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from pydantic import BaseModel

@dataclass
class Config:
    batch: int

class Model(BaseModel):
    batch: int

class Size(Enum):
    SMALL = 1
    LARGE = 2

class dtype:
    def __init__(self, name): self.name = name
    def __repr__(self): return self.name

Pair = namedtuple("Pair", "a b")

"""
"""What loops are parametrised with, and pytest's ids do not tell."""


@pytest.fixture
def measured(project: Project) -> list[str]:
    """A machine with a GPU, and the ids of the workloads that were measured on it."""
    project.gpus()
    return project.measures(records.run())


def test_every_parameter_set_is_a_workload_of_its_own(
    project: Project, measured: list[str]
) -> None:
    project.workload(PARAMETRISED)
    assert project.gate().status == 1
    assert dict.fromkeys(measured) == dict.fromkeys(
        ["copies[4-pageable]", "copies[4-pinned]", "copies[64-pageable]", "copies[64-pinned]"]
    )


def test_parameters_are_part_of_what_a_baseline_is_for(
    project: Project, measured: list[str]
) -> None:
    project.workload(PARAMETRISED)
    project.gate("-k", "64-pinned")
    kept = project.store.results.latest("copies[64-pinned]")
    assert kept is not None
    assert kept.result.workload.comparable_parameters() == {
        "capture": "cudaProfilerApi",
        "parameter batch": "64",
        "parameter pinned": "True",
        "step": "step",
        "steps": "4",
        "warmup": "1",
    }


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        ("(4, 64)", "(4, 32)", "parameter value was (4, 64) and is (4, 32)"),
        (
            "{'batch': [4]}",
            "{'batch': [8]}",
            "parameter value was {'batch': [4]} and is {'batch': [8]}",
        ),
        (
            "dtype('torch.half')",
            "dtype('torch.float')",
            "parameter value was torch.half and is torch.float",
        ),
        ("Config(64)", "Config(48)", "parameter value.batch was 64 and is 48"),
        (
            "[Config(2)]",
            "[Config(3)]",
            "parameter value was [Config({'batch': 2})] and is [Config({'batch': 3})]",
        ),
        (
            "SimpleNamespace(net=Config(2))",
            "SimpleNamespace(net=Config(3))",
            "parameter value.net.batch was 2 and is 3",
        ),
        ("Pair(1, 2)", "Pair(1, 3)", "parameter value.b was 2 and is 3"),
        ("Model(batch=1)", "Model(batch=2)", "parameter value.batch was 1 and is 2"),
        ("Size.SMALL", "Size.LARGE", "parameter value was Size.SMALL = 1 and is Size.LARGE = 2"),
        ("{'b', 'a'}", "{'b', 'c'}", "parameter value was set('a', 'b') and is set('b', 'c')"),
        (
            "partial(max, 1)",
            "partial(max, 2)",
            "parameter value was partial(max, 1, {}) and is partial(max, 2, {})",
        ),
        (
            "Path(__file__)",
            "Path('/a/b.bin')",
            "parameter value was 'workloads/loops.py' and is 'b.bin'",
        ),
        (
            "Fraction(1, 2)",
            "Fraction(1, 3)",
            "parameter value was Fraction(1/2) and is Fraction(1/3)",
        ),
        (
            "[max, Config]",
            "[min, Config]",
            "parameter value was [max, Config] and is [min, Config]",
        ),
    ],
)
def test_a_parameter_whose_id_does_not_tell_it_is_still_part_of_it(
    project: Project, measured: list[str], before: str, now: str, told: str
) -> None:
    text = f"{KINDS_OF_VALUES}{LOOP}".replace("loop(steps", "loop(steps, value")
    text = text.replace(
        "@workload", '@pytest.mark.parametrize("value", [VALUE], ids=["one"])\n@workload'
    )
    project.workload(text.replace("VALUE", before))
    project.gate()
    result = project.store.results.latest("loop[one]")
    assert result is not None
    blessed = project.baseline("loop[one]").model_copy(
        update={
            "parameters": result.result.workload.comparable_parameters(),
            "digest": result.result.workload.digest(),
        }
    )
    project.bless(blessed)
    project.workload(text.replace("VALUE", now))
    seen = project.gate()
    assert seen.status == 1
    assert f"the baseline is of other parameters: {told}." in seen.out
    assert measured


def test_a_parameter_that_no_text_tells_is_a_caveat_of_the_verdict(
    project: Project, measured: list[str]
) -> None:
    text = f"{KINDS_OF_VALUES}{LOOP}".replace("loop(steps", "loop(steps, value, other")
    values = "[(object(), Config(lambda: 1))]"
    project.workload(
        text.replace("@workload", f'@pytest.mark.parametrize("value, other", {values})\n@workload')
    )
    project.gate()
    result = project.store.results.latest("loop[value0-other0]")
    assert result is not None
    made = result.result.workload
    assert (made.untold, made.parameters["value"]) == (
        ("other.batch", "value"),
        "object in value0-other0",
    )
    blessed = project.baseline("loop[value0-other0]")
    project.bless(
        blessed.model_copy(
            update={"parameters": made.comparable_parameters(), "digest": made.digest()}
        )
    )
    seen = project.gate("-rA")
    assert seen.status == 0
    assert (
        "not compared with the baseline is what parameters other.batch and value hold"
        in " ".join(seen.out.split())
    )
    assert measured


def test_a_parameter_is_told_alike_in_every_process_and_checkout(
    project: Project, measured: list[str]
) -> None:
    made = """
@dataclass
class Odd:
    data: str = __file__
    files: tuple = (__file__, Path(__file__).parent / ".." / "workloads" / "x.bin")
    run: object = field(default_factory=object, compare=False)
    options: dict = field(default_factory=lambda: {"b": 1, "api_key": "hunter2hunter2", "a": {2, 1}})
    seven: int = type("Seven", (int,), {})(7)

class Raising:
    def __getattr__(self, name): raise RuntimeError(name)

@dataclass
class Text(str):
    other: int = 1

class device: pass

def made(n):
    def inner(): return n
    return inner

DEEP = []
for _ in range(5000): DEEP = [DEEP]
TWICE = Config(1)
for _ in range(30): TWICE = [TWICE, TWICE]
"""
    text = f"{KINDS_OF_VALUES.replace('import dataclass', 'import dataclass, field')}{made}{LOOP}"
    names = [
        "odd",
        "mock",
        "raising",
        "text",
        "closure",
        "deep",
        "twice",
        "numbers",
        "bound",
        "pattern",
        "within",
    ]
    values = (
        "Odd(), Mock(spec=dict), Raising(), Text(), made(1), DEEP, TWICE, list(range(5000)), [].append, "
        "[re.compile('a'), slice(1, 2), Fraction(1, 2)], {'kind': device()}"
    )
    text = text.replace("loop(steps", f"loop(steps, {', '.join(names)}")
    text = text.replace(
        "@workload",
        f'@pytest.mark.parametrize("{", ".join(names)}", [({values})], ids=["x"])\n@workload',
    )
    project.workload(f"import re\nfrom unittest.mock import Mock\n{text}")
    project.gate()
    result = project.store.results.latest("loop[x]")
    assert result is not None
    told = result.result.workload
    secret = hashlib.sha256(b"'hunter2hunter2'").hexdigest()[:12]
    assert {name: value for name, value in told.parameters.items() if name not in told.untold} == {
        "numbers": f"sha256:{hashlib.sha256(repr(list(range(5000))).encode()).hexdigest()[:12]}",
        "odd": "Odd",
        "odd.data": "'workloads/loops.py'",
        "odd.files": "('workloads/loops.py', 'workloads/x.bin')",
        "odd.options": f"{{'a': set(1, 2), 'api_key': sha256:{secret}, 'b': 1}}",
        "odd.seven": "7",
        "pattern": "[re.compile('a', 32), slice(1, 2, None), Fraction(1/2)]",
    }
    assert told.untold == ("bound", "closure", "deep", "mock", "raising", "text", "twice", "within")
    assert measured


def test_a_secret_and_what_holds_itself_are_told_without_either(
    project: Project, measured: list[str]
) -> None:
    text = f"{KINDS_OF_VALUES}{LOOP}".replace("loop(steps", "loop(steps, config")
    made = "ROUND = Config(1)\nROUND.batch = ROUND\nSECRET = SimpleNamespace(hub_token='abcdefgh', tokens=4, ring=ROUND)\n"
    project.workload(
        text.replace("@workload", f'{made}@pytest.mark.parametrize("config", [SECRET])\n@workload')
    )
    project.gate()
    result = project.store.results.latest("loop[config0]")
    assert result is not None
    told = result.result.workload
    assert told.parameters == {
        "config": "SimpleNamespace",
        "config.hub_token": "sha256:94a8a20acda6",
        "config.ring": "Config",
        "config.ring.batch": "Config in config0",
        "config.tokens": "4",
    }
    assert told.untold == ("config.ring.batch",)
    assert measured


def test_k_chooses_among_workloads_and_the_gate_opens_on_those(
    project: Project, measured: list[str]
) -> None:
    project.workload(LOOP)
    project.workload(LOOP.replace("def loop", "def other"), file="other.py")
    project.bless(project.baseline())
    project.bless(project.baseline("other"))
    seen = project.gate("-k", "loop and not other")
    assert (seen.status, set(measured)) == (0, {"loop"})
    assert seen.summary.splitlines()[-1] == "GATE OPEN: 1 PASSED"


def test_a_node_id_names_one_workload(project: Project, measured: list[str]) -> None:
    project.workload(PARAMETRISED)
    project.gate("workloads/loops.py::copies[4-pinned]")
    assert set(measured) == {"copies[4-pinned]"}


def test_a_file_outside_the_folder_is_collected_where_it_is_named(
    project: Project, measured: list[str]
) -> None:
    project.write("elsewhere/mine.py", LOOP)
    project.gate("elsewhere/mine.py")
    assert set(measured) == {"loop"}


def test_only_decorated_functions_are_workloads(project: Project, measured: list[str]) -> None:
    project.workload(
        LOOP
        + textwrap.dedent("""
        import unittest

        def test_like_a_test(): ...
        def helper(steps): ...
        class TestClass:
            def test_method(self): ...
        class Case(unittest.TestCase):
            def test_case(self): ...
        class Loops:
            loop = loop
        """)
    )
    project.gate()
    assert set(measured) == {"loop"}


def test_a_workload_imported_from_a_sister_file_is_collected_once(
    project: Project, measured: list[str]
) -> None:
    project.write("pytest.ini", "[pytest]\npythonpath = workloads\n")
    project.workload(LOOP)
    project.workload(
        "from loops import loop\n" + LOOP.replace("def loop", "def other"), file="more.py"
    )
    project.gate()
    assert set(measured) == {"loop", "other"}


def test_a_workload_wrapped_by_a_helper_of_another_file_is_collected(
    project: Project, measured: list[str]
) -> None:
    project.write("pytest.ini", "[pytest]\npythonpath = workloads\n")
    project.write(
        "workloads/_helpers.py",
        "import functools\n\ndef quiet(function):\n    @functools.wraps(function)\n"
        "    def inner(steps):\n        return function(steps)\n    return inner\n",
    )
    project.workload(
        LOOP.replace("@workload", "@quiet\n@workload").replace(
            "import time", "import time\nfrom _helpers import quiet"
        )
    )
    project.gate()
    assert set(measured) == {"loop"}


def test_a_workload_made_by_a_helper_of_another_file_is_collected(
    project: Project, measured: list[str]
) -> None:
    project.write("pytest.ini", "[pytest]\npythonpath = workloads\n")
    project.workload(LOOP)
    making = textwrap.indent(LOOP.partition("\n\n")[2], "    ")
    project.workload(
        f"from perfgate import workload\n\ndef make():\n{making}    return loop\n",
        file="_helpers.py",
    )
    project.workload("from _helpers import make\nmade = make()\n", file="more.py")
    project.gate()
    assert set(measured) == {"loop", "made"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param(
            "class Loops:\n    @workload()\n    def method(self, steps): ...\n",
            "@workload on Loops.method: it is in a class. Workloads are plain functions, and this one would not be "
            "measured.\nMove it out of the class.",
            id="in a class",
        ),
        pytest.param(
            "class Loops:\n    @staticmethod\n    @workload()\n    def method(steps): ...\n",
            "@workload on Loops.method: it is in a class. Workloads are plain functions, and this one would not be "
            "measured.\nMove it out of the class.",
            id="in a class, static",
        ),
        pytest.param(
            "class Loops:\n    class Small:\n        @workload()\n        def method(self, steps): ...\n",
            "@workload on Loops.Small.method: it is in a class. Workloads are plain functions, and this one would not "
            "be measured.\nMove it out of the class.",
            id="in a class in a class",
        ),
        pytest.param(
            "import functools\n\n@functools.lru_cache\n@workload()\ndef other(steps): ...\n",
            "@workload on other: a decorator above it has made a _lru_cache_wrapper of it. Workloads are plain "
            "functions, and this one would not be measured.\n"
            "Leave that decorator out, or put it on what the workload calls.",
            id="under a decorator that returns no function",
        ),
        pytest.param(
            "import pytest\n\n@workload()\n@pytest.mark.parametrize('n', [])\ndef other(steps, n): ...\n",
            "@workload on other: it is parametrised with no values for n. Nothing of it would be measured.\n"
            "Give it at least one value, or remove it.",
            id="parametrised with nothing",
        ),
    ],
)
def test_what_is_marked_and_could_not_be_measured_is_an_error_of_collection(
    project: Project, measured: list[str], text: str, says: str
) -> None:
    project.workload(LOOP)
    project.workload(f"from perfgate import workload\n{text}", file="more.py")
    seen = project.gate()
    assert (seen.status, measured) == (2, [])
    assert f"workloads/more.py: {says}\n" in seen.failures


def test_the_suffix_of_a_command_may_be_in_capitals(project: Project, measured: list[str]) -> None:
    project.write("workloads/train.YAML", "command: [true]\nstep: x\nsteps: 5\n")
    project.gate()
    assert set(measured) == {"train"}


def test_files_that_begin_with_an_underscore_hold_no_workloads(
    project: Project, measured: list[str]
) -> None:
    project.workload(LOOP, file="_helpers.py")
    project.workload("command: [true]\n", file="_base.yaml")
    project.workload(LOOP.replace("def loop", "def other"), file="other.py")
    project.gate()
    assert set(measured) == {"other"}


def test_a_project_with_tests_and_testpaths_is_gated_by_its_workloads(
    project: Project, measured: list[str]
) -> None:
    project.write("pytest.ini", "[pytest]\ntestpaths = tests\n")
    project.write("tests/test_it.py", "def test_it(): raise AssertionError\n")
    project.workload(LOOP)
    seen = project.gate()
    assert set(measured) == {"loop"}
    assert "test_it" not in seen.out


def test_the_folder_of_workloads_is_a_setting(project: Project, measured: list[str]) -> None:
    project.write("pyproject.toml", '[tool.perfgate]\nworkloads = "bench/gpu"\n')
    project.write("bench/gpu/loops.py", LOOP)
    project.gate()
    assert set(measured) == {"loop"}


def test_a_subfolder_is_as_good_a_place_to_start_from(
    project: Project, measured: list[str]
) -> None:
    project.write("pytest.ini", "[pytest]\n")
    project.workload(LOOP)
    (project.root / "src").mkdir()
    project.patch.chdir(project.root / "src")
    project.gate()
    assert set(measured) == {"loop"}
    assert (project.root / ".perfgate" / "results" / "nvidia-h200" / "loop").is_dir()


@pytest.mark.parametrize(
    ("folder", "named", "configuring"),
    [
        ("workloads", ("workloads/loops.py",), "pytest.ini"),
        ("workloads", ("workloads/loops.py::loop",), "pyproject.toml"),
        ("tests", (), "pytest.ini"),
    ],
)
def test_a_folder_of_a_project_is_not_gated_as_one(
    project: Project, measured: list[str], folder: str, named: Sequence[str], configuring: str
) -> None:
    project.write("pyproject.toml", "[tool.perfgate]\nruns = 2\n")
    project.workload(LOOP)
    project.bless(project.baseline())
    project.write(f"{folder}/{configuring}", "[pytest]\n" if configuring == "pytest.ini" else "")
    if not named:
        project.patch.chdir(project.root / folder)
    seen = project.gate(*named)
    assert (seen.status, measured) == (4, [])
    assert (
        f"ERROR: --perfgate: pytest takes /project/{folder} for the project for its {configuring}. It is a folder of "
        "the project /project, whose settings and baselines are meant.\n"
        f"Start in /project with --rootdir=., or do without /project/{folder}/{configuring}.\n"
    ) in seen.err
    project.patch.chdir(project.root)
    assert project.gate("--rootdir=.", *named).status == 0


def test_a_project_in_a_project_is_one_of_its_own(project: Project, measured: list[str]) -> None:
    project.write("pyproject.toml", "[tool.perfgate]\n")
    project.workload(LOOP)
    project.write("sub/pytest.ini", "[pytest]\n")
    project.write("sub/workloads/loops.py", LOOP.replace("def loop", "def other"))
    project.gate("sub/workloads")
    assert set(measured) == {"other"}
    assert (project.root / "sub" / ".perfgate" / "results" / "nvidia-h200" / "other").is_dir()


def test_a_file_outside_the_workloads_may_have_a_root_of_its_own(
    project: Project, measured: list[str]
) -> None:
    project.write("pyproject.toml", "[tool.perfgate]\n")
    project.workload(LOOP)
    project.write("sub/pytest.ini", "[pytest]\n")
    project.write("sub/bench.py", LOOP.replace("def loop", "def other"))
    project.gate("sub/bench.py")
    assert set(measured) == {"other"}


def test_the_gate_sets_up_no_fixture_itself(project: Project, measured: list[str]) -> None:
    fixture = "import pytest\n\n@pytest.fixture{}\ndef model():\n    raise MemoryError\n"
    project.workload(LOOP.replace("loop(steps)", "loop(steps, model)") + fixture.format(""))
    project.write("workloads/conftest.py", fixture.format("(autouse=True)"))
    project.bless(project.baseline())
    assert project.gate().status == 0


def test_pytest_timeout_does_not_end_a_gate(project: Project, measured: list[str]) -> None:
    project.write("pytest.ini", "[pytest]\ntimeout = 0.001\n")
    project.workload(LOOP)
    project.bless(project.baseline())
    assert project.gate().status == 0


def test_nor_does_pytests_faulthandler(project: Project) -> None:
    seen: list[str] = []
    for called in ("dump_traceback_later", "cancel_dump_traceback_later"):
        project.patch.setattr(faulthandler, called, lambda *_, of=called, **__: seen.append(of))

    def run() -> Run:
        seen.append("run")
        return records.run()

    project.workload()
    project.gpus()
    project.measures(run)
    project.write("pytest.ini", "[pytest]\nfaulthandler_timeout = 600\n")
    project.gate("--perfgate-runs=1", "--perfgate-max-runs=1")
    assert seen[:3] == ["dump_traceback_later", "cancel_dump_traceback_later", "run"]


def test_nor_does_a_workloads_own_timeout_mark(project: Project, measured: list[str]) -> None:
    project.workload(
        LOOP.replace("@workload", "@pytest.mark.timeout(0.001)\n@workload").replace(
            "import", "import pytest\nimport", 1
        )
    )
    project.bless(project.baseline())
    assert project.gate().status == 0
    assert set(measured) == {"loop"}


def test_doctests_and_python_files_patterns_change_nothing(
    project: Project, measured: list[str]
) -> None:
    project.write(
        "pytest.ini",
        "[pytest]\naddopts = --doctest-modules\npython_files = *.py\npython_functions = *\n",
    )
    project.workload(LOOP + '\ndef documented():\n    """\n    >>> 1 + 1\n    3\n    """\n')
    project.bless(project.baseline())
    assert project.gate().status == 0
    assert set(measured) == {"loop"}


@pytest.mark.parametrize("named", ["workloads", "workloads/", ".", "workloads/loops.py"])
def test_who_names_the_whole_folder_asks_for_what_is_gone_as_well(
    project: Project, named: str
) -> None:
    project.gpus()
    project.workload()
    project.measures(records.run())
    project.bless(project.baseline())
    project.bless(project.baseline("gone"))
    seen = project.gate(named)
    whole = named != "workloads/loops.py"
    assert seen.status == (1 if whole else 0)
    assert ("GATE SHUT: gone: it has a baseline for this machine" in seen.out) == whole


@pytest.mark.parametrize(
    ("arguments", "shut"),
    [
        (("workloads/loops.py",), True),
        (("workloads/more",), True),
        (("workloads/loops.py", "workloads/more/more.py"), True),
        (("workloads/other.py",), False),
        (("workloads/loops.py::loop",), False),
        (("workloads/loops.py", "-k", "loop"), True),
        (("workloads/loops.py", "-k", "kept"), False),
        (("workloads/loops.py", "-m", "not slow"), True),
        (("workloads/loops.py", "--deselect=workloads/loops.py::kept"), True),
        (("workloads/loops.py", "--ignore=workloads/other.py"), True),
        (("workloads/loops.py", "--lf"), True),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_who_names_a_file_asks_for_what_is_gone_of_it_as_well(
    project: Project, measured: list[str], arguments: tuple[str, ...], *, shut: bool
) -> None:
    project.write("pytest.ini", "[pytest]\nmarkers = slow\n")
    project.workload(f"{LOOP}\n\n{LOOP.replace('def loop', 'def kept')}")
    project.workload(LOOP.replace("def loop", "def more"), file="more/more.py")
    project.workload(LOOP.replace("def loop", "def other"), file="other.py")
    for name in ("loop", "kept", "more", "other"):
        project.bless(project.baseline(name))
    for name, source in (("gone", "workloads/loops.py"), ("lost", "workloads/more/more.py")):
        project.bless(project.baseline(name).model_copy(update={"source": source}))
    seen = project.gate("-p", "cacheprovider", *arguments)
    assert (seen.status, "which does not declare it now" in seen.summary) == (int(shut), shut)


def test_a_file_that_cannot_be_collected_hides_its_workloads(
    project: Project, measured: list[str]
) -> None:
    project.workload("import nothing_of_this_name\n")
    project.bless(project.baseline().model_copy(update={"source": "workloads/loops.py"}))
    seen = project.gate("workloads/loops.py")
    assert seen.status == 2
    assert "does not declare it" not in seen.summary


def test_a_named_file_whose_baseline_cannot_be_read_keeps_the_gate_shut_only_for_its_own(
    project: Project, measured: list[str]
) -> None:
    project.workload()
    project.bless(project.baseline())
    project.bless(project.baseline("other")).write_text("{}")
    assert project.gate("workloads/loops.py").status == 0


def test_lf_runs_what_failed_and_does_not_take_the_rest_for_deleted(project: Project) -> None:
    project.gpus()
    project.workload(LOOP)
    project.workload(LOOP.replace("def loop", "def other"), file="other.py")
    project.bless(project.baseline())
    project.bless(project.baseline("other"))
    slower = records.run({Metric.H2D_COPIES: 3})
    project.measures(slower, slower, records.run())
    assert project.gate("-p", "cacheprovider").status == 1
    measured = project.measures(records.run())
    seen = project.gate("-p", "cacheprovider", "--lf")
    assert (seen.status, set(measured)) == (0, {"loop"})
    assert seen.summary.splitlines()[-1] == "GATE OPEN: 1 PASSED"


def test_ignoring_a_file_is_a_selection(project: Project, measured: list[str]) -> None:
    project.workload(LOOP)
    project.workload(LOOP.replace("def loop", "def other"), file="other.py")
    project.bless(project.baseline())
    project.bless(project.baseline("other"))
    assert project.gate("--ignore=workloads/other.py").status == 0


def test_collect_only_lists_workloads_and_measures_nothing(
    project: Project, measured: list[str]
) -> None:
    project.workload(PARAMETRISED)
    project.workload(
        'command: [python, train.py]\nstep: "Batch \\\\d+"\nsteps: 5\n', file="train.yaml"
    )
    seen = project.gate("--collect-only", "-q")
    assert seen.out.splitlines()[:5] == [
        "workloads/loops.py::copies[4-pageable]",
        "workloads/loops.py::copies[4-pinned]",
        "workloads/loops.py::copies[64-pageable]",
        "workloads/loops.py::copies[64-pinned]",
        "workloads/train.yaml::train",
    ]
    assert (seen.status, seen.summary, measured) == (0, "", [])


def test_fixtures_can_be_listed(project: Project) -> None:
    project.workload(LOOP)
    assert (seen := project.gate("--fixtures")).status == 0
    assert seen.summary == ""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "command: python train.py\nstep: x\nsteps: 5\n",
            (
                "workloads/train.yaml command: it is the text 'python train.py'. Expected a list of words: no shell is "
                'involved.\nWrite command: ["python", "train.py"]'
            ),
        ),
        (
            'command: [python]\nstep: "("\nsteps: 5\n',
            (
                "workloads/train.yaml step: '(' is no regular expression (missing ), unterminated subpattern at "
                "position 0).\nEscape what is meant literally with a backslash."
            ),
        ),
    ],
)
def test_a_broken_yaml_workload_is_an_error_of_collection(
    project: Project, text: str, says: str
) -> None:
    project.workload(text, file="train.yaml")
    seen = project.gate()
    assert seen.status == 2
    assert seen.failures == f"__ ERROR collecting workloads/train.yaml __\n{says}\n"
    assert seen.summary == "GATE SHUT: files that cannot be collected: workloads/train.yaml\n"


def test_documents_name_the_files_that_cannot_be_collected_before_what_they_kept_from_being_measured(
    project: Project,
) -> None:
    project.workload(LOOP)
    project.workload("def broken(:\n", file="cc.py")
    project.gate("--perfgate-json=verdicts.json", "--perfgate-markdown=verdicts.md")
    told = [
        "files that cannot be collected: workloads/cc.py",
        "loop: it was expected, and not measured",
    ]
    assert json.loads((project.root / "verdicts.json").read_text())["shut_by"] == told
    lines = (project.root / "verdicts.md").read_text().replace("\\", "").splitlines()
    assert [line for line in lines if line.startswith("- ")] == [f"- {one}" for one in told]


def test_an_interrupted_gate_is_told_before_what_it_did_not_measure() -> None:
    shut = Closing(
        opens=False, notes=(note("expected-not-measured", Severity.INVALID, workload="loop"),)
    )
    told = with_exit_status(shut, pytest.ExitCode.INTERRUPTED)
    assert (told.opens, told.shut_by) == (False, ("interrupted", *shut.shut_by))


def test_an_unknown_budget_is_an_error_of_collection(project: Project) -> None:
    project.workload(LOOP.replace("warmup=1", 'warmup=1, budgets={"speed": 0.1}'))
    seen = project.gate()
    assert seen.status == 2
    assert seen.failures == (
        "__ ERROR collecting workloads/loops.py __\n"
        "workloads/loops.py: @workload of loop: budgets: 'speed' is not a valid Metric. Known are step_ms, "
        "step_mean_ms, kernel_ms, gap_ms, h2d_ms, h2d_exposed_ms, nccl_ms, nccl_exposed_ms, mem_exposed_ms, launches, "
        "graph_launches, h2d_copies, h2d_bytes, d2h_copies, pageable_copies, syncs.\n"
    )


# Without --perfgate


@pytest.mark.parametrize(
    "arguments", [(), ("workloads",), ("workloads/test_loops.py",)], ids=" ".join
)
def test_plain_pytest_ignores_workloads_whatever_their_names(
    project: Project, arguments: tuple[str, ...]
) -> None:
    project.workload(LOOP.replace("def loop", "def test_loop"), file="test_loops.py")
    project.workload("not: a workload", file="broken.yaml")
    project.write("test_it.py", "def test_it(): pass\n")
    seen = project.pytest("-q", *arguments)
    assert seen.out.splitlines()[-1] == (
        "no tests ran in 0.00s" if arguments else "1 passed in 0.00s"
    )


def test_plain_pytest_imports_nothing_heavy(project: Project) -> None:
    project.write(
        "test_it.py",
        "import sys\n\ndef test_it():\n"
        "    assert not {'torch', 'pandas', 'scipy', 'numpy', 'pydantic', 'rich', 'yaml', 'nvtx'} & set(sys.modules)\n",
    )
    seen = project.run("-q", "-p", "no:hypothesispytest", "-p", "no:xdist")
    assert (seen.status, seen.out.splitlines()[-1]) == (0, "1 passed in 0.00s")


@pytest.mark.parametrize(
    "option",
    [
        "--perfgate-runs=3",
        "--perfgate-max-runs=3",
        "--perfgate-timeout=3",
        "--perfgate-new=allow",
        "--perfgate-json=x",
    ],
)
def test_an_option_without_perfgate_is_a_usage_error(project: Project, option: str) -> None:
    seen = project.pytest(option)
    flag = option.partition("=")[0]
    assert (seen.complaint, seen.status) == (
        f"ERROR: {flag} does nothing without --perfgate. Add --perfgate, or leave it out.\n",
        4,
    )


# Under a real nsys


@pytest.mark.nsys
@pytest.mark.usefixtures("real_nsys")
def test_fixtures_and_parameters_reach_the_workload_in_its_own_process(project: Project) -> None:
    project.write("tests/test_it.py", "")
    project.write(
        "pytest.ini",
        "[pytest]\ntestpaths = tests\naddopts = -p no:cacheprovider -ra --strict-markers -x\ntimeout = 1\n"
        "filterwarnings = error\n",
    )
    project.write(
        "workloads/conftest.py",
        "import os, pytest\n\n@pytest.fixture\ndef model(seeded):\n    return 0.002\n\n"
        "@pytest.fixture(autouse=True)\ndef seeded():\n    os.environ['SEEDED'] = 'yes'\n    yield\n",
    )
    project.workload(
        "import os, time\nimport pytest\nfrom perfgate import workload\n\n"
        "@workload(steps=4, warmup=1)\n@pytest.mark.parametrize('factor', [2], ids=['twice as long'])\n"
        "def loop(steps, model, factor):\n    assert os.environ['SEEDED'] == 'yes'\n    time.sleep(1.2)\n"
        "    for _ in steps:\n        time.sleep(model * factor)\n"
    )
    seen = project.gate("--perfgate-runs=1", "--perfgate-new=allow")
    assert seen.status == 0
    kept = project.store.results.latest("loop[twice as long]")
    assert kept is not None
    step_ms = kept.result.runs[0].value(Metric.STEP_MS)
    assert step_ms is not None
    assert 4.0 < step_ms < 1000
    assert set(kept.result.code) == {"workloads/conftest.py", "workloads/loops.py"}


@pytest.mark.nsys
@pytest.mark.usefixtures("real_nsys")
def test_a_script_is_measured_untouched(project: Project) -> None:
    project.write(
        "train.py",
        "import sys, time, nvtx\nfor n in range(int(sys.argv[1])):\n"
        "    with nvtx.annotate(f'Batch {n}'):\n        time.sleep(0.003)\n",
    )
    project.workload(
        f'command: [{sys.executable}, train.py, "9"]\nstep: "Batch \\\\d+"\nwarmup: 4\nsteps: 5\ncapture: all\n',
        file="train.yaml",
    )
    seen = project.gate("--perfgate-runs=1", "--perfgate-new=allow")
    assert (
        seen.summary.splitlines()[-1]
        == "GATE OPEN: 1 NO_BASELINE (compared with nothing) let through by the settings"
    )
    kept = project.store.results.latest("train")
    assert kept is not None
    assert kept.result.runs[0].processes[0].steps == 5
    assert set(kept.result.code) == {"train.py"}


RUN_BY_YAML = "step: s\nsteps: 5\ncapture: all\n"


@pytest.mark.parametrize(
    "command",
    [
        "[python, workloads/scripts/train.py, --steps=9]",
        "[python, -m, workloads.scripts.train]",
        "[bash, -c, 'cd . && exec python workloads/scripts/train.py;']",
        "[python, scripts/train.py]\ncwd: workloads",
        "[bash, -c, 'cd workloads/scripts && python train.py']",
        "[bash, -c, 'exec python $PWD/workloads/scripts/train.py']",
        "[python, -m, train]\nenv: {PYTHONPATH: workloads/scripts}",
    ],
)
@pytest.mark.parametrize(
    "given", [(), ("workloads/loops.py", "workloads/train.yaml", "workloads/scripts/train.py")]
)
def test_a_script_that_a_yaml_workload_runs_is_not_imported_by_the_gate(
    project: Project, command: str, given: tuple[str, ...]
) -> None:
    project.write(
        "workloads/scripts/train.py",
        "# No perfgate in here.\ndef evaluate(model):\n    pass\n\nopen('trained', 'w').close()\n",
    )
    project.workload(f"command: {command}\n{RUN_BY_YAML}", file="train.yaml")
    project.workload(LOOP)
    seen = project.gate("--collect-only", "-q", *given)
    assert not (project.root / "trained").exists()
    assert seen.status == 0, seen.out
    assert "loops.py::loop" in seen.out
    assert "train.yaml" in seen.out


@pytest.mark.parametrize("command", ["[python, workloads/loops.py]", "[python, train.py, loops]"])
def test_a_script_that_also_declares_workloads_is_collected(project: Project, command: str) -> None:
    project.workload(f"command: {command}\n{RUN_BY_YAML}", file="train.yaml")
    project.workload(LOOP)
    assert "workloads/loops.py::loop" in project.gate("--collect-only", "-q").out
    # By a decorator of the project's own, from a file that is not collected.
    project.write("workloads/_common.py", "import perfgate\n\nbench = perfgate.workload(steps=3)\n")
    imported = "import sys\n\nsys.path.insert(0, 'workloads')\nfrom _common import bench\n"
    project.workload(f"{imported}\n@bench\ndef loop(*, steps):\n    pass\n")
    assert "workloads/loops.py::loop" in project.gate("--collect-only", "-q").out


def test_a_file_of_workloads_of_the_same_name_as_a_script_elsewhere_is_collected(
    project: Project,
) -> None:
    project.write("train.py", "")
    project.workload(f"command: [python, train.py]\n{RUN_BY_YAML}", file="cli.yaml")
    project.workload(LOOP, file="_loops.py")
    project.workload(
        "import sys\n\nsys.path.insert(0, 'workloads')\nfrom _loops import loop\n", file="train.py"
    )
    assert "workloads/train.py::loop" in project.gate("--collect-only", "-q").out


def test_a_script_that_cannot_be_read_is_an_error_of_collection_as_ever(project: Project) -> None:
    project.workload(f"command: [python, workloads/train.py]\n{RUN_BY_YAML}", file="train.yaml")
    project.workload("def broken(:\n", file="train.py")
    assert (
        project.gate().summary == "GATE SHUT: files that cannot be collected: workloads/train.py\n"
    )


@pytest.mark.parametrize(
    ("code", "called"), [("0", "sys.exit(0)"), ("", "sys.exit()"), ("'no'", "sys.exit('no')")]
)
def test_a_file_that_leaves_as_it_is_imported_is_an_error_of_collection(
    project: Project, code: str, called: str
) -> None:
    project.workload(LOOP)
    project.workload(f"import sys\n\nsys.exit({code})\n", file="train.py")
    seen = project.gate()
    assert seen.status == 2
    told = (
        f"workloads/train.py: {called} ended it as it was imported, as a file of workloads is before anything is "
        'measured. Put what it runs under if __name__ == "__main__":, or keep it in another folder.'
    )
    assert seen.failures == f"__ ERROR collecting workloads/train.py __\n{told}\n"
    assert "GATE SHUT: files that cannot be collected: workloads/train.py" in seen.summary


@pytest.mark.nsys
@pytest.mark.usefixtures("real_nsys")
def test_steps_of_the_projects_own_are_told_from_a_loop_that_took_none(project: Project) -> None:
    project.write(
        "conftest.py", "import pytest\n\n@pytest.fixture\ndef steps():\n    return [1, 2]\n"
    )
    project.workload()
    seen = project.gate("--perfgate-runs=1")
    assert seen.status == 1
    told = " ".join(seen.out.split())
    assert (
        "loop: NOT_MEASURED its steps are not perfgate's: a fixture or parameter of the project's own is called steps. "
        "Give that another name."
    ) in told


@pytest.mark.nsys
@pytest.mark.usefixtures("real_nsys")
def test_steps_that_wrap_perfgates_are_as_good(project: Project) -> None:
    project.write(
        "conftest.py",
        "import pytest\n\n@pytest.fixture\ndef steps(steps):\n    return iter(steps)\n",
    )
    project.workload()
    assert project.gate("--perfgate-runs=1", "--perfgate-new=allow").status == 0


def test_where_the_folder_one_stands_in_is_not_the_project_it_is_said_why(project: Project) -> None:
    project.write("pytest.ini", "[pytest]\n")
    (project.root / "workloads").rmdir()
    project.patch.chdir(project.write("svc/a.py", "").parent)
    seen = project.gate()
    assert seen.status == 4
    assert (
        "The project is /project by /project/pytest.ini; to have one here, give /project/svc a configuration of "
        "pytest's own." in seen.err
    )


@pytest.mark.parametrize("stands", ["svc/ml", "svc/ml/workloads", "."])
def test_settings_below_the_project_are_not_passed_over(project: Project, stands: str) -> None:
    project.write("pytest.ini", "[pytest]\n")
    (project.root / "workloads").rmdir()
    workload = project.write("svc/ml/workloads/loops.py", LOOP)
    project.write("svc/ml/pyproject.toml", '[tool.perfgate]\ninconclusive = "fail"\n')
    project.patch.chdir(project.root / stands)
    seen = project.gate(*([workload] if stands == "." else []))
    assert seen.status == 4
    assert seen.err.endswith(
        "ERROR: --perfgate: pytest takes /project for the project for its pytest.ini, and would not read the "
        "[tool.perfgate] of /project/svc/ml.\nPut a [tool.pytest.ini_options] beside it, so that pytest, and "
        "perfgate's commands, find the project there.\n\n"
    )
    project.patch.chdir(project.root / "svc/ml")
    project.gpus()
    project.measures(records.run())
    assert project.gate("--rootdir=.").status == 1
    project.write(
        "svc/ml/pyproject.toml",
        '[tool.perfgate]\ninconclusive = "fail"\n[tool.pytest.ini_options]\n',
    )
    assert "NO_BASELINE" in project.gate().out
