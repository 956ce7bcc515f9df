"""What GitHub Actions says to a job: missed when it is asked for, and read as far as wanted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.refused import refused

from perfgate.github.context import Payload, base_branch, event_as, variable
from perfgate.model.errors import ActionsContextMissing


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("GITHUB_TOKEN", "actions-token-missing"),
        ("GITHUB_REPOSITORY", "actions-variable-missing"),
    ],
)
def test_what_is_missing_is_missed_when_it_is_asked_for(name: str, code: str) -> None:
    assert variable({name: "it"}, name) == "it"
    with refused(ActionsContextMissing, code):
        variable({name: "  "}, name)


class Wanted(Payload):
    number: int


def event(folder: Path, content: str) -> dict[str, str]:
    file = folder / "event.json"
    file.write_text(content, encoding="utf-8")
    return {"GITHUB_EVENT_PATH": str(file)}


@pytest.mark.parametrize(
    "content",
    ["{", "[]", "[" * 100_000, json.dumps({"number": "::error::evil"})],
    ids=lambda one: str(one)[:20],
)
def test_what_is_no_such_event_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(ActionsContextMissing) as caught:
        event_as(event(tmp_path, content), Wanted)
    assert caught.value.code == "event-odd"
    assert "evil" not in str(caught.value)


@pytest.mark.parametrize(
    ("base", "sent", "branch"),
    [
        ("release/1.0", {"repository": {"default_branch": "trunk"}}, "release/1.0"),
        ("", {"repository": {"default_branch": "trunk"}}, "trunk"),
        ("", {"repository": {"default_branch": ["trunk"]}}, None),
        ("", {}, None),
    ],
)
def test_the_branch_of_the_baselines_is_the_base_or_the_default_one(
    tmp_path: Path, base: str, sent: dict[str, object], branch: str | None
) -> None:
    env = event(tmp_path, json.dumps(sent)) | {"GITHUB_BASE_REF": base}
    assert base_branch(env) == branch
    assert base_branch({}) is None
