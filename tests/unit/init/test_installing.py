"""How workflows install perfgate, as their YAML says it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.actions import WORKFLOWS

from perfgate.init.installing import faults_of, gated_folders, installing_faults

AT = f"git+https://x.example/p.git@{'a' * 40}"
LOCKED = "pip install --require-hashes -r lock.txt\npip install --no-deps"
JOB = """\
on: push
permissions: {{}}
jobs:
  gate:
    permissions: {{contents: {may}}}
    steps:
      - run: |
          {run}
      - uses: ./.github/actions/perfgate
        with: {{working-directory: services/train}}
"""


@pytest.mark.parametrize(
    ("run", "may", "codes"),
    [
        (f"pip install 'perfgate @ {AT}'", "read", []),
        ("pip install perfgate", "read", ["install-by-name"]),
        (
            'x && python -m pip install -q "perfgate[github]==0.1" # by name',
            "read",
            ["install-by-name"],
        ),
        ("uv tool install perfgate; true", "read", ["install-by-name"]),
        ("pip install -e . # perfgate", "read", []),
        (f"{LOCKED} 'perfgate @ {AT}'".replace("\n", "\n          "), "write", []),
        (f"pip install 'perfgate @ {AT}'", "write", ["install-unlocked"]),
        ("pip install --no-deps click", "write", ["install-unlocked"]),
        ("# without a known origin\n          exit 1", "read", ["install-step-fails"]),
    ],
)
def test_an_install_step_names_no_index_and_is_locked_where_the_token_may_write(
    run: str, may: str, codes: list[str]
) -> None:
    text = JOB.format(run=run, may=may)
    assert [one.code for one in faults_of(text)] == codes
    assert gated_folders(text) == {"services/train"}


@pytest.mark.parametrize("text", ["a: [", "@", "{" * 5000])
def test_what_is_no_yaml_is_a_fault_and_gates_nothing(text: str) -> None:
    assert [one.code for one in faults_of(text)] == ["workflow-no-yaml"]
    assert gated_folders(text) == frozenset()


def test_the_workflows_of_this_repository_have_no_fault_but_ones_that_are_missing_are_not_known(
    tmp_path: Path,
) -> None:
    assert installing_faults(WORKFLOWS.parents[1]) == ()
    assert installing_faults(tmp_path) is None
