"""Templates: what is put into them is read back as it was meant, and their seals tell edits from
what was written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from perfgate.init import templates

TOP = Path(__file__).parents[3]

AWKWARD = [
    *(
        "main",
        "feature/1.0",
        "on",
        "yes",
        "no",
        "null",
        "~",
        "1e3",
        "0x10",
        "1_000",
        "1.0",
        "2026-01-01",
        "",
    ),
    *(
        "a: b",
        "a #b",
        "- a",
        "'",
        '"',
        'it\'s "so"',
        "\\",
        "%",
        "@a",
        "&a",
        "*a",
        "!a",
        "{a}",
        "[a]",
        "a,b",
        "?",
    ),
    *(
        "größe/☃/😀",
        "\t",
        " a ",
        "a\x07b",
        "a\u2028b",
        "__python__",
        "${{ github.token }}",
        "a" * 500 + " b",
    ),
    *("a\nb\n", "a\nb", "\na", "  a\n b", "a \nb", "a\n\n\n", "a: |\n  b\n", "\n", "a\r\nb"),
]
"""Texts that YAML, its versions or GitHub are known to take for something else."""

TEMPLATE = """\
on:
  push:
    branches: __branches__
jobs:
  gate:
    runs-on: __runner__
    steps:
      - run: __install__
        shell: bash
      - uses: x
        with:
          folder: __folder__
      - __folder__
"""


def read(text: str) -> dict[str, Any]:
    """A workflow's data; `on` is text here, as GitHub reads it, and every number is one."""
    loaded = yaml.load(text, Loader=yaml.BaseLoader)
    assert isinstance(loaded, dict)
    return loaded


@pytest.mark.parametrize("value", AWKWARD)
def test_a_value_is_read_back_as_it_was_put_in(value: str) -> None:
    _assert_round_trip(value)


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cs"])))
def test_any_text_is_read_back_as_it_was_put_in(value: str) -> None:
    _assert_round_trip(value)


def _assert_round_trip(value: str) -> None:
    filled = templates.filled(
        TEMPLATE,
        {"branches": [value, "x"], "runner": ["self-hosted"], "install": value, "folder": value},
    )
    meant = {
        "on": {"push": {"branches": [value, "x"]}},
        "jobs": {
            "gate": {
                "runs-on": ["self-hosted"],
                "steps": [
                    {"run": value, "shell": "bash"},
                    {"uses": "x", "with": {"folder": value}},
                    value,
                ],
            }
        },
    }
    assert read(filled) == meant
    # With types: whatever YAML's version, what is in quotes or a block is text.
    assert yaml.safe_load(filled) == {
        True if key == "on" else key: held for key, held in meant.items()
    }


def test_texts_of_one_line_are_in_quotes_and_others_are_blocks() -> None:
    values: Mapping[str, str | Sequence[str]] = {
        "branches": ["1e3"],
        "runner": ["on"],
        "install": "a 'b'\n\nc\n",
        "folder": "größe",
    }
    assert (
        templates.filled(TEMPLATE, values)
        == """\
on:
  push:
    branches: ["1e3"]
jobs:
  gate:
    runs-on: ["on"]
    steps:
      - run: |
          a 'b'

          c
        shell: bash
      - uses: x
        with:
          folder: "größe"
      - "größe"
"""
    )


@pytest.mark.parametrize(
    ("branch", "pattern"),
    [
        ("main", "main"),
        ("feature/1.0", "feature/1.0"),
        ("c++", r"c\+\+"),
        ("!a*b", r"\!a\*b"),
        ("a[b]?", r"a\[b\]\?"),
    ],
)
def test_a_branch_is_a_pattern_that_means_it_alone(branch: str, pattern: str) -> None:
    assert templates.branch_pattern(branch) == pattern


def test_github_evaluates_nothing_in_a_value() -> None:
    assert templates.verbatim("a ${{ secrets.X }}") == "a ${{ '${{' }} secrets.X }}"


@pytest.mark.parametrize("name", templates.WORKFLOWS)
def test_every_place_of_a_template_is_a_whole_value(name: str) -> None:
    text = templates.template(name)
    values = {
        "branches": ["b"],
        "gpus": ["r"],
        "python": "p",
        "folder": "f",
        "branch_folder": "g",
        "lock_python": "3.1",
        "measured": "m",
    }
    filled = templates.filled(text, {**values, "install": "i\nj\n", "install_perfgate": "k\nl\n"})
    assert ("__" in text) is (name != "perfgate-approved.yml")
    assert "__" not in filled
    assert read(filled)["name"] == name.removesuffix(".yml").replace("-", " ")


def test_the_action_is_the_one_of_this_repository() -> None:
    ours = TOP / ".github" / "actions" / "perfgate" / "action.yml"
    assert templates.template(templates.ACTION).encode() == ours.read_bytes()


def test_a_seal_is_intact_until_the_file_is_edited() -> None:
    text = templates.sealed("name: x\non: push\n", version="1.2.3")
    assert text == (
        "# perfgate init 1.2.3: written by it, sealed af38285cb3b34114. "
        "perfgate init --check says what a newer one would change.\nname: x\non: push\n"
    )
    assert templates.seal_of(text) == templates.Seal(version="1.2.3", intact=True)
    assert templates.seal_of(text.replace("\n", "\r\n")) == templates.Seal(
        version="1.2.3", intact=True
    )
    assert templates.seal_of(text.replace("push", "pull")) == templates.Seal(
        version="1.2.3", intact=False
    )
    assert templates.seal_of(text + "\n") == templates.Seal(version="1.2.3", intact=False)
    assert templates.seal_of(text.partition("\n")[2]) is None
    assert templates.seal_of("") is None


# The workflows are those of this repository, but for the places that differ


def ours(name: str) -> dict[str, Any]:
    return read((TOP / ".github" / "workflows" / name).read_text(encoding="utf-8"))


def theirs(name: str) -> dict[str, Any]:
    values = {"branches": ["main"], "gpus": ["gpu"], "python": "3.12", "folder": "."}
    more = {"branch_folder": "branch", "lock_python": "3.11", "measured": ""}
    more |= {"install": "i\n", "install_perfgate": "j\n"}
    return read(templates.filled(templates.template(name), {**values, **more}))


@pytest.mark.parametrize("name", templates.WORKFLOWS)
def test_they_start_when_ours_do_with_the_same_rights_and_limits(name: str) -> None:
    for key in ("name", "on", "permissions", "concurrency"):
        assert theirs(name).get(key) == ours(name).get(key), key
    jobs, models = theirs(name)["jobs"], ours(name)["jobs"]
    assert jobs.keys() == models.keys()
    for job in jobs:
        for key in (
            "name",
            "if",
            "timeout-minutes",
            "needs",
            "concurrency",
            "outputs",
            "uses",
            "with",
        ):
            assert jobs[job].get(key) == models[job].get(key), (job, key)
        more = models[job]["permissions"].items() - jobs[job]["permissions"].items()
        assert jobs[job]["permissions"].items() <= models[job]["permissions"].items()
        assert more <= {("contents", "read")}, "perfgate comes from a checkout in ours alone"


@pytest.mark.parametrize("name", ["perfgate-gate.yml", "perfgate-occasions.yml"])
def test_their_gates_are_a_matrix_of_one_that_is_made_larger_by_its_lines(name: str) -> None:
    gate, model = theirs(name)["jobs"]["gate"], ours(name)["jobs"]["gate"]
    assert gate["runs-on"] == ["self-hosted", "${{ matrix.gpu }}"]
    matrix = gate["strategy"]["matrix"]
    assert matrix == {
        "gpu": ["gpu"],
        **({"shard": ["1"], "shards": ["1"]} if name == "perfgate-gate.yml" else {}),
    }
    assert {*matrix, "include"} == model["strategy"]["matrix"].keys()
    assert gate["strategy"]["fail-fast"] == "false"
    (given,), (meant,) = (
        [step["with"] for step in job["steps"] if step.get("uses") == "./.github/actions/perfgate"]
        for job in (gate, model)
    )
    assert {**meant, "working-directory": "."} == given
    assert given["machine"] == "${{ matrix.machine }}"


def test_their_verdict_is_made_and_published_as_ours_is() -> None:
    def acts(workflow: dict[str, Any]) -> list[Any]:
        steps: list[dict[str, Any]] = workflow["jobs"]["verdict"]["steps"]
        return [steps[0], *steps[[step.get("name") for step in steps].index("Install") + 1 :]]

    assert acts(theirs("perfgate-gate.yml")) == acts(ours("perfgate-gate.yml"))
    assert len(acts(theirs("perfgate-gate.yml"))) == 5


@pytest.mark.parametrize("name", templates.WORKFLOWS)
def test_their_actions_are_pinned_as_ours_are(name: str) -> None:
    def used(workflow: dict[str, Any]) -> set[str]:
        return {
            step["uses"]
            for job in workflow["jobs"].values()
            for step in job.get("steps", [])
            if "uses" in step
        }

    assert used(theirs(name)) <= used(ours(name)) | used(ours("perfgate-gate.yml"))


@pytest.mark.parametrize("name", templates.WORKFLOWS)
def test_the_commands_that_act_are_ours(name: str) -> None:
    def commands(workflow: dict[str, Any]) -> list[tuple[object, object]]:
        steps = [step for job in workflow["jobs"].values() for step in job.get("steps", [])]
        return [
            (step["run"], step.get("env"))
            for step in steps
            if 'perfgate" github' in step.get("run", "")
        ]

    assert commands(theirs(name)) == commands(ours(name))
    assert bool(commands(theirs(name))) is (name in (templates.GATE, *templates.WORKFLOWS[3:]))
