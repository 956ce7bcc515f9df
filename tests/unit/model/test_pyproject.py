"""The project's settings: what comes before what, and the whole message for each way in which they
are wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from perfgate.model.errors import ConfigInvalid
from perfgate.model.metric import Metric
from perfgate.model.outcome import OnInconclusive, OnNew
from perfgate.model.pyproject import find_root, load_settings
from perfgate.model.settings import GraphTrace, Settings


def load(root: Path, table: str | None = None, **options: object) -> Settings:
    if table is not None:
        (root / "pyproject.toml").write_text(f"[tool.perfgate]\n{table}\n", encoding="utf-8")
    return load_settings(root, options)


def refusal(root: Path, table: str | None = None, **options: object) -> ConfigInvalid:
    with pytest.raises(ConfigInvalid) as invalid:
        load(root, table, **options)
    return invalid.value


# Where they come from


@pytest.mark.parametrize(
    "text",
    ["", '[project]\nname = "x"\n', "[tool.ruff]\n", "[tool]\n", "[tool.perfgate]\n", "tool = 3\n"],
)
def test_a_file_that_says_nothing_of_perfgate_leaves_the_defaults(
    tmp_path: Path, text: str
) -> None:
    assert load(tmp_path) == Settings()
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    assert load(tmp_path) == Settings()


@pytest.mark.parametrize(
    "name", ["tool.perfgat", "tool.perf-gate", "tool.perfgates", "tool.prefgate", "perfgate"]
)
def test_a_table_that_is_nearly_ours_is_not_passed_over(tmp_path: Path, name: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f'[{name}]\ninconclusive = "fail"\n', encoding="utf-8")
    assert refusal(tmp_path).code == "table-misspelt"
    (tmp_path / "pyproject.toml").write_text(f"[{name}]\n[tool.perfgate]\n", encoding="utf-8")
    assert load(tmp_path) == Settings()


def test_every_key_is_read_from_the_file(tmp_path: Path) -> None:
    table = """\
workloads = "gpu"
baselines = "perf/baselines"
runs = 4
max_runs = 8
timeout_s = 90
inconclusive = "fail"
new = "allow"
budgets = {step_ms = 0.05, gap_ms = "3%", launches = "1%"}
nsys = "/opt/nsys/bin/nsys"
trace_osrt = true
cuda_graph_trace = "node"
pass_env = ["HF_TOKEN"]
lock_timeout_s = 12.5
"""
    assert load(tmp_path, table) == Settings(
        workloads="gpu",
        baselines="perf/baselines",
        runs=4,
        max_runs=8,
        timeout_s=90.0,
        inconclusive=OnInconclusive.FAIL,
        new=OnNew.ALLOW,
        budgets={Metric.STEP_MS: 0.05, Metric.GAP_MS: 0.03, Metric.LAUNCHES: 0.01},
        nsys="/opt/nsys/bin/nsys",
        trace_osrt=True,
        cuda_graph_trace=GraphTrace.NODE,
        pass_env=("HF_TOKEN",),
        lock_timeout_s=12.5,
    )


def test_an_option_comes_before_the_file_and_the_file_before_the_default(tmp_path: Path) -> None:
    settings = load(tmp_path, 'runs = 4\nnew = "allow"', runs="5", max_runs=None, new=None)
    assert (settings.runs, settings.new, settings.max_runs) == (5, OnNew.ALLOW, 29)


LAYOUTS: list[tuple[dict[str, str], str]] = [
    ({"pyproject.toml": "", "a/pyproject.toml": ""}, "a"),
    ({"pyproject.toml": "[tool.pytest.ini_options]\n", "a/pyproject.toml": ""}, ""),
    ({"pyproject.toml": "[tool.pytest]\nminversion = '8'\n", "a/pyproject.toml": ""}, ""),
    ({"pyproject.toml": "", "a/pytest.ini": ""}, "a"),
    ({"pytest.toml": "", "a/pyproject.toml": ""}, ""),
    ({"a/tox.ini": "[pytest]\n", "pyproject.toml": ""}, "a"),
    ({"a/tox.ini": "[tox]\n", "pyproject.toml": ""}, ""),
    ({"a/setup.cfg": "[tool:pytest]\n", "a/b/pyproject.toml": ""}, "a"),
    ({"a/setup.py": "", "pyproject.toml": ""}, ""),
    ({"a/setup.py": ""}, "a"),
    ({"a/b/pytest.ini": "", "a/.git/HEAD": ""}, "a/b"),
    ({"a/.git/HEAD": "", "pyproject.toml": ""}, ""),
]
"""Files of a project, and the folder that is its root as seen from a/b."""


@pytest.mark.parametrize(("files", "root"), LAYOUTS)
def test_the_root_is_pytests_own(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, files: Mapping[str, str], root: str
) -> None:
    tmp_path = pytester.path
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert find_root(tmp_path / "a" / "b") == tmp_path / root
    if pytest.version_tuple < (9,) and (
        "pytest.toml" in files or "[tool.pytest]" in files.get("pyproject.toml", "")
    ):
        return  # pytest 8 knows neither
    monkeypatch.chdir(tmp_path / "a" / "b")
    monkeypatch.setenv(
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1"
    )  # plugins of the environment may start processes
    assert pytester.parseconfig().rootpath == tmp_path / root


def test_where_nothing_configures_pytest_the_repository_is_the_root(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / ".git").touch()  # a worktree's is a file
    assert find_root(tmp_path / "a" / "b") == tmp_path


def test_without_a_project_the_root_is_where_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "exists", lambda _path: False)
    assert find_root(tmp_path) == tmp_path


# Wrong files


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"[tool.perfgate\n", "toml-unreadable"),
        (b"# caf\xe9\n", "toml-unreadable"),
        (b"[tool]\nperfgate = 3", "table-invalid"),
        (b"[[tool.perfgate]]\nruns = 3", "table-invalid"),
    ],
)
def test_a_file_without_a_table_of_ours_that_can_be_read_is_refused(
    tmp_path: Path, text: bytes, code: str
) -> None:
    (tmp_path / "pyproject.toml").write_bytes(text)
    assert refusal(tmp_path).code == code


WRONG: dict[str, list[str]] = {
    "": ["runz = 3"],
    "runs": ['runs = "3"', "runs = true", "runs = 3.5", "runs = 2026-03-02", "runs = 11"],
    "timeout_s": ["timeout_s = 0", "timeout_s = inf", "timeout_s = nan", 'timeout_s = "10"'],
    "trace_osrt": ['trace_osrt = "yes"'],
    "new": ['new = "maybe"'],
    "pass_env": ['pass_env = "TOKEN"'],
    "pass_env.0": ["pass_env = [3]"],
    "workloads": ['workloads = ""', "workloads = '../deco/workloads'", 'workloads = "a\\u0000b"'],
    "baselines": [
        "baselines = './'",
        "baselines = '.git/x'",
        "baselines = '.perfgate'",
        "baselines = '../other'",
        "baselines = '/tmp/b'",
        "baselines = 'workloads'",
    ],
    "ab_setup.1": ['ab_setup = ["uv", "a\\u0000b"]'],
    "anchor_budget": ["anchor_budget = 2", 'anchor_budget = "x%"'],
    "budgets": ["budgets = 0.02"],
    "budgets.stepms.[key]": ["budgets = {stepms = 0.1}"],
    "budgets.nccl_ms.[key]": ["budgets = {nccl_ms = 0.1}"],
    "budgets.step_ms": [
        f"budgets = {{step_ms = {budget}}}"
        for budget in ('"2"', '"x%"', '"nan%"', "[0.02]", "0", "1", "true", "nan", "-0.1")
    ],
}
"""Lines, by the key that is named as wrong; of unknown keys none."""


@pytest.mark.parametrize(
    ("key", "line"), [(key, line) for key, lines in WRONG.items() for line in lines]
)
def test_a_wrong_line_is_refused(tmp_path: Path, key: str, line: str) -> None:
    error = refusal(tmp_path, line)
    assert error.fields["place"] == f"pyproject.toml [tool.perfgate] {key}".rstrip()


def test_of_both_names_of_a_setting_the_old_one_is_too_much(tmp_path: Path) -> None:
    error = refusal(tmp_path, 'ab_run = "off"\nduet = "off"')
    assert (error.code, error.fields["key"]) == ("key-unknown", "duet")


def test_a_wrong_line_is_refused_even_where_an_option_replaces_it(tmp_path: Path) -> None:
    error = refusal(tmp_path, "runs = 0", runs="3")
    assert error.fields["place"] == "pyproject.toml [tool.perfgate] runs"


@pytest.mark.parametrize(
    ("setting", "value", "option"),
    [
        ("runs", "three", "--perfgate-runs"),
        ("max_runs", "101", "--perfgate-max-runs"),
        ("timeout_s", "nan", "--perfgate-timeout"),
        ("nsys", "", "--perfgate-nsys"),
        ("new", "yes", "--perfgate-new"),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(
    tmp_path: Path, setting: str, value: str, option: str
) -> None:
    assert refusal(tmp_path, None, **{setting: value}).fields["place"] == option


def test_a_long_value_is_shown_in_part(tmp_path: Path) -> None:
    assert len(str(refusal(tmp_path, f'new = "{"x" * 5000}"'))) < 300


def test_each_budget_may_be_a_percentage(tmp_path: Path) -> None:
    settings = load(tmp_path, 'anchor_budget = "5 %"\nbudgets = {step_ms = "3%"}')
    assert (settings.anchor_budget, settings.budgets) == (0.05, {Metric.STEP_MS: 0.03})


def test_a_budget_given_as_an_option_replaces_that_of_its_metric_alone(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        "[tool.perfgate.budgets]\nstep_ms = 0.05\ngap_ms = 0.04\n", encoding="utf-8"
    )
    settings = load_settings(tmp_path, {"budgets": ["step_ms=3%", "kernel_ms = 1e-3"]})
    assert settings.budgets == {Metric.STEP_MS: 0.03, Metric.GAP_MS: 0.04, Metric.KERNEL_MS: 0.001}


@pytest.mark.parametrize(
    "text",
    ["step_ms:0.03", "step=0.03", "nccl_ms=0.03", "step_ms=3", "step_ms=nan", "step_ms=300%"],
)
def test_a_budget_given_as_an_option_is_checked(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"^--perfgate-budget"):
        load_settings(tmp_path, {"budgets": [text]})
