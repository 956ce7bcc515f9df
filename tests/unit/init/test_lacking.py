"""What older and edited workflows lack is told, and what nothing lacks is left in peace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from perfgate.init import templates
from perfgate.init.lacking import gated_folders, lacking

TOP = Path(__file__).parents[3]
SHA = "a" * 40

GOOD = f"""\
on:
  pull_request:
    types: [labeled]
permissions: {{}}
jobs:
  gate:
    if: github.event.action == 'labeled' && github.event.label.name == 'perfgate-approved'
    runs-on: [self-hosted, gpu]
    timeout-minutes: 90
    concurrency: gpu
    steps:
      - uses: actions/checkout@{SHA} # v6
        with:
          fetch-depth: 0
          persist-credentials: false
      - name: Install
        run: pip install ${{{{ matrix.extra }}}} ${{{{ '${{{{' }}}}
"""
"""A gate that lacks nothing, in few words."""

CHECKOUT = "step actions/checkout"
LABELED = (
    "it listens to labeled beside other types of pull_request: any label starts a run without a gate after one that "
    "was red, and GitHub takes a required check that was skipped for passed"
)

VALUES: Mapping[str, str | Sequence[str]] = {
    "branches": ["main"],
    "gpus": ["gpu"],
    "python": "3.12",
    "folder": ".",
    "branch_folder": "branch",
    "lock_python": "3.12",
    "install": "i\n",
    "install_perfgate": "j\n",
    "measured": "",
}
"""What goes into the templates."""


@pytest.mark.parametrize(
    ("there", "instead", "told"),
    [
        (
            "permissions: {}\n",
            "",
            "no `permissions: {}` at the top: jobs that name none get the repository's default token",
        ),
        (
            "permissions: {}\n",
            "permissions: read-all\n",
            "no `permissions: {}` at the top: jobs that name none get the repository's default token",
        ),
        ("    timeout-minutes: 90\n", "", "job gate: no time limit (timeout-minutes)"),
        (
            "    concurrency: gpu\n",
            "",
            "job gate: no concurrency, so that two gates may measure one another",
        ),
        (
            "          persist-credentials: false\n",
            "",
            f"job gate, {CHECKOUT}: no `persist-credentials: false`, so the token stays on the disk",
        ),
        (
            "persist-credentials: false",
            "persist-credentials: true",
            f"job gate, {CHECKOUT}: no `persist-credentials: false`, so the token stays on the disk",
        ),
        (
            "          fetch-depth: 0\n",
            "",
            f"job gate, {CHECKOUT}: no `fetch-depth: 0`, so there are no commits for duets",
        ),
        (f"@{SHA}", "@v6", f"job gate, {CHECKOUT}: the action is not pinned by its full SHA"),
        (f"@{SHA}", "@aaaaaaa", f"job gate, {CHECKOUT}: the action is not pinned by its full SHA"),
        (
            " == 'perfgate-approved'",
            "",
            "job gate: runs the code of forks without the label perfgate-approved",
        ),
        (
            "${{ matrix.extra }}",
            "${{ github.head_ref }}",
            "job gate, step Install: the expression github.head_ref is in its script; hand it over by env",
        ),
        (
            "${{ matrix.extra }}",
            "${{ matrix.extra || inputs.x }}",
            "job gate, step Install: the expression matrix.extra || inputs.x is in its script; hand it over by env",
        ),
        (
            "pull_request:",
            "pull_request_target:",
            "job gate: pull_request_target on a runner of your own",
        ),
        ("[labeled]", "[opened, labeled]", LABELED),
        (
            "permissions: {}\n",
            "permissions: {}\nconcurrency: gate\n",
            "concurrency at the top, where any label ends a gate that runs: set it at the job",
        ),
    ],
)
def test_what_is_lacking_is_a_sentence(there: str, instead: str, told: str) -> None:
    assert lacking(GOOD) == ()
    edited = GOOD.replace(there, instead)
    assert edited != GOOD
    assert lacking(edited) == (told,)


def test_a_label_of_a_job_without_which_another_does_not_run_holds_for_it() -> None:
    later = """\
  other:
    needs: [gate]
    runs-on: gpu-box
    timeout-minutes: 5
    concurrency: gpu
    steps: []
"""
    assert lacking(GOOD + later) == ()
    assert lacking(GOOD + later.replace("needs:", "if: ${{ always() }}\n    needs:")) == (
        "job other: runs the code of forks without the label perfgate-approved",
    )


def test_jobs_that_need_one_another_in_a_circle_are_not_approved() -> None:
    text = "on: pull_request\npermissions: {}\njobs:\n  a: {needs: b, runs-on: x, timeout-minutes: 1, concurrency: g}\n"
    assert lacking(text + "  b: {needs: a, runs-on: ubuntu-24.04, timeout-minutes: 1}\n") == (
        "job a: runs the code of forks without the label perfgate-approved",
    )


@pytest.mark.parametrize(
    ("asked", "is_ours"),
    [
        ("ubuntu-24.04", False),
        ("[ubuntu-latest, x]", True),
        ("${{ matrix.os }}", True),
        ("{labels: [self-hosted], group: g}", True),
        ("{labels: ubuntu-24.04}", False),
        ("", True),
    ],
)
def test_a_runner_that_is_not_known_to_be_githubs_counts_as_ones_own(
    asked: str, is_ours: bool
) -> None:
    text = f"on: push\npermissions: {{}}\njobs:\n  a:\n    runs-on: {asked}\n    timeout-minutes: 1\n    steps: []\n"
    told = ("job a: no concurrency, so that two gates may measure one another",)
    assert lacking(text) == (told if is_ours else ())


def test_a_checkout_of_the_pull_request_beside_a_write_token_is_told() -> None:
    text = f"""\
on: {{workflow_run: {{workflows: [perfgate]}}}}
permissions: {{}}
jobs:
  comment:
    runs-on: ubuntu-24.04
    timeout-minutes: 5
    steps:
      - uses: actions/checkout@{SHA}
        with:
          persist-credentials: "false"
          ref: ${{{{ github.event.workflow_run.head_sha }}}}
"""
    assert lacking(text) == (
        f"job comment, {CHECKOUT}: checks out a pull request's code under workflow_run",
    )


def test_a_reusable_workflow_is_pinned_or_local() -> None:
    text = "on: push\npermissions: {}\njobs:\n  a:\n    uses: o/r/.github/workflows/x.yml@"
    assert lacking(text + SHA) == ()
    assert lacking(text + "main") == (
        "job a: o/r/.github/workflows/x.yml@main is not pinned by its full SHA",
    )
    assert (
        lacking("on: push\npermissions: {}\njobs:\n  a:\n    uses: ./.github/workflows/x.yml\n")
        == ()
    )


def test_an_action_is_read_by_its_steps() -> None:
    text = "name: x\nruns:\n  using: composite\n  steps:\n"
    assert lacking(f"{text}    - {{uses: o/r@{SHA}}}\n    - {{run: echo, shell: bash}}\n") == ()
    assert lacking(
        text + "    - {uses: o/r@v1}\n    - {run: 'echo ${{ inputs.x }}', shell: bash}\n"
    ) == (
        "step o/r: the action is not pinned by its full SHA",
        "step 2: the expression inputs.x is in its script; hand it over by env",
    )
    assert lacking("runs: {using: node20, main: x.js}\n") == ("it has no steps",)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ("it is no mapping: GitHub cannot read it",)),
        ("- a\n", ("it is no mapping: GitHub cannot read it",)),
        ("a: b\nc: [\n", ("it is no YAML in line 3: GitHub cannot read it",)),
        ("a\x00b", ("it is no YAML: GitHub cannot read it",)),
        ("[" * 5000, ("it is no YAML: GitHub cannot read it",)),
        (
            "on: push\npermissions: {}\njobs: &a [*a]\n",
            ("it is no YAML in line 3: GitHub cannot read it",),
        ),
        ("on: push\npermissions: {}\njobs: []\n", ("it has no jobs",)),
        (
            "on: push\npermissions: {}\njobs: {a: {runs-on: ubuntu-24.04, timeout-minutes: 1, steps: [1, [], {}]}}\n",
            (),
        ),
    ],
)
def test_what_is_no_workflow_is_told(text: str, told: tuple[str, ...]) -> None:
    assert lacking(text) == told


@pytest.mark.parametrize(
    "file",
    sorted((TOP / ".github").rglob("*.yml")),
    ids=lambda file: file.relative_to(TOP / ".github").as_posix(),
)
def test_the_workflows_of_this_repository_lack_nothing(file: Path) -> None:
    assert lacking(file.read_text(encoding="utf-8")) == ()


@pytest.mark.parametrize("name", [*templates.WORKFLOWS, templates.ACTION])
def test_the_templates_lack_nothing(name: str) -> None:
    assert lacking(templates.filled(templates.template(name), VALUES)) == ()


@pytest.mark.parametrize(
    ("there", "instead", "told"),
    [
        (
            "          name: perfgate-${{ matrix.gpu }}-${{ matrix.shard }}\n",
            "",
            "job gate: all gates of its matrix publish under one name, and overwrite one another",
        ),
        (
            "          name: perfgate\n",
            "          name: verdict\n",
            "no artifact perfgate, which the comment tells: merge the gates in a job after them",
        ),
    ],
)
def test_gates_that_come_to_no_one_verdict_are_told(there: str, instead: str, told: str) -> None:
    text = templates.filled(templates.template(templates.GATE), VALUES)
    assert there in text
    assert lacking(text.replace(there, instead)) == (told,)


def skipped(job: str) -> str:
    return (
        f"job {job}: it may be skipped, and GitHub takes a required check that was skipped for passed: "
        "let it, or a job after it, run `if: always()` and fail where there was no gate"
    )


def test_one_gate_needs_no_job_that_merges_but_one_that_is_never_skipped() -> None:
    gate = f"      - uses: o/perfgate/.github/actions/perfgate@{SHA}\n"
    verdict = "  verdict: {if: always(), needs: gate, runs-on: ubuntu-24.04, timeout-minutes: 1, steps: []}\n"
    assert lacking(GOOD + gate + verdict) == ()
    assert lacking(GOOD + gate) == (skipped("gate"),)
    assert lacking(GOOD + gate + verdict.replace("needs: gate, ", "")) == (skipped("gate"),)
    assert lacking(GOOD + gate + verdict.replace("always()", "'!cancelled()'")) == (
        skipped("gate"),
    )
    named = f"{gate}        with: {{name: gate-1}}\n"
    told = "no artifact perfgate, which the comment tells: merge the gates in a job after them"
    assert lacking(GOOD + named) == (told,)
    scheduled = GOOD.replace("pull_request:\n    types: [labeled]", "schedule: [{cron: 0 3 * * *}]")
    assert lacking(scheduled + named) == ()


@pytest.mark.parametrize(
    ("instead", "lacks"),
    [
        ("    if: always()\n", False),
        ("    if: ${{  always() }}\n", False),
        ("", True),
        ("    if: ${{ !cancelled() }}\n", True),
        ("    if: ${{ always() && needs.gate.result != 'skipped' }}\n", True),
        ("    if: ${{ !cancelled() && needs.gate.result != 'skipped' }}\n", True),
    ],
)
def test_a_verdict_that_may_be_skipped_is_told(instead: str, lacks: bool) -> None:
    text = templates.filled(templates.template(templates.GATE), VALUES)
    asked = "    if: ${{ always() }}\n"
    assert text.count(asked) == 1
    assert lacking(text.replace(asked, instead)) == ((skipped("verdict"),) if lacks else ())


def test_a_gate_that_is_called_answers_for_its_callers_pull_requests() -> None:
    text = templates.filled(templates.template(templates.GATE), VALUES)
    assert lacking(text.replace(" == 'perfgate-approved'", "").replace("'labeled'", "")) == (
        "job gate: runs the code of forks without the label perfgate-approved",
    )


@pytest.mark.parametrize(
    ("types", "told"),
    [
        ("[opened, synchronize, reopened, labeled]", (LABELED,)),
        ("[labeled, unlabeled]", (LABELED,)),
        ("[opened]", ()),
    ],
)
def test_labels_that_start_a_gate_beside_pushes_are_told(types: str, told: tuple[str, ...]) -> None:
    text = templates.filled(templates.template("perfgate-approved.yml"), VALUES)
    assert text.count("[labeled]") == 1
    assert lacking(text.replace("[labeled]", types)) == told
    elsewhere = text.replace(
        "./.github/workflows/perfgate-gate.yml", "./.github/workflows/tests.yml"
    )
    assert lacking(elsewhere.replace("[labeled]", types)) == ()


def test_what_a_workflow_gates_is_where_the_action_works() -> None:
    def gate(step: str) -> str:
        return f"jobs:\n  a:\n    steps:\n      - {{uses: x/y@v1}}\n      - {step}\n"

    ours, theirs = (
        "uses: ./.github/actions/perfgate",
        "uses: o/perfgate/.github/actions/perfgate@v1",
    )
    assert gated_folders(gate(f"{{{ours}}}")) == {"."}
    assert gated_folders(gate(f"{{{theirs}, with: {{working-directory: a b}}}}")) == {"a b"}
    assert gated_folders(gate("{run: echo}")) == frozenset()
    assert [gated_folders(text) for text in ("", "[", "- x", "jobs: [1]")] == [frozenset()] * 4
