"""What GitHub Actions says to a job: taken where it has its form, missed when it is asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfgate.github.context import Context, Payload, is_sha
from perfgate.model.errors import ActionsContextMissing

ENV = {
    "GITHUB_REPOSITORY": "octo/loops",
    "GITHUB_API_URL": "https://ghe.example.org/api/v3/",
    "GITHUB_SERVER_URL": "https://ghe.example.org",
    "GITHUB_TOKEN": "ghs_secret",
    "GITHUB_EVENT_NAME": "workflow_run",
    "GITHUB_RUN_ID": "7",
    "GITHUB_SHA": "a" * 40,
    "GITHUB_REF": "refs/heads/perf/faster",
    "GITHUB_ACTOR": "github-actions[bot]",
}
ASKED = {
    "GITHUB_REPOSITORY": "repository",
    "GITHUB_API_URL": "api_url",
    "GITHUB_SERVER_URL": "page",
    "GITHUB_TOKEN": "token",
    "GITHUB_EVENT_NAME": "event_name",
    "GITHUB_RUN_ID": "run_id",
    "GITHUB_SHA": "sha",
    "GITHUB_REF": "branch",
    "GITHUB_ACTOR": "actor",
}


def code(asked: str, **env: str) -> str:
    with pytest.raises(ActionsContextMissing) as caught:
        getattr(Context.from_env(ENV | env), asked)
    assert "ghs_" not in str(caught.value)
    return caught.value.code


def test_what_a_job_is_shown_is_there() -> None:
    here = Context.from_env(ENV)
    assert (here.api_url, here.branch, here.run_id) == (
        "https://ghe.example.org/api/v3",
        "perf/faster",
        7,
    )
    assert here.page_of_run(7, 2) == "https://ghe.example.org/octo/loops/actions/runs/7/attempts/2"
    assert "ghs_secret" not in repr(here)


@pytest.mark.parametrize("name", ASKED)
def test_what_is_missing_is_missed_only_when_it_is_asked_for(name: str) -> None:
    missing = "actions-token-missing" if name == "GITHUB_TOKEN" else "actions-variable-missing"
    assert code(ASKED[name], **{name: "  "}) == missing


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("GITHUB_REPOSITORY", value) for value in ("octo", "octo/loops/more", "octo/..", "o/x?")),
        *(("GITHUB_API_URL", value) for value in ("file:///etc", "https://user:pass@evil.example")),
        *(("GITHUB_SERVER_URL", f"https://x.example{end}") for end in ("/a)b", "/?q", ":port")),
        *(("GITHUB_RUN_ID", value) for value in ("0", "1e9", "-1")),
        ("GITHUB_SHA", "abc"),
        *(("GITHUB_REF", value) for value in ("main", "refs/tags/v1")),
        ("GITHUB_EVENT_NAME", "Push!"),
        ("GITHUB_ACTOR", "a b"),
        ("GITHUB_TOKEN", "ghs_a\nb"),
    ],
)
def test_what_is_not_what_github_sets_is_refused(name: str, value: str) -> None:
    assert code(ASKED[name], **{name: value}) == "actions-variable-odd"


class Wanted(Payload):
    number: int


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (json.dumps({"number": 7, "more": [1]}), None),
        ("{", "event-unreadable"),
        ("[]", "event-unreadable"),
        ("[" * 100_000, "event-unreadable"),
        (json.dumps({"number": "::error::evil"}), "event-odd"),
    ],
    ids=lambda one: str(one)[:20],
)
def test_the_event_is_read_as_far_as_it_is_wanted(
    tmp_path: Path, content: str, expected: str | None
) -> None:
    file = tmp_path / "event.json"
    file.write_text(content, encoding="utf-8")
    here = Context.from_env(ENV | {"GITHUB_EVENT_PATH": str(file)})
    if expected is None:
        assert here.event_as(Wanted) == Wanted(number=7)
        return
    with pytest.raises(ActionsContextMissing) as caught:
        here.event_as(Wanted)
    assert caught.value.code == expected
    assert "evil" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("a" * 40, True), ("0" * 64, True), *((t, False) for t in ("", "a" * 39, "A" * 40, "g" * 40))],
)
def test_a_commits_full_name_is_one(text: str, is_one: bool) -> None:
    assert is_sha(text) is is_one
    assert not is_sha(f"{text}\n")
