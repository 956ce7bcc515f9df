"""What GitHub Actions tells a job: each value is checked when it is asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfgate.github.context import LARGEST_EVENT, NAMES, Context, Payload, is_sha
from perfgate.model.errors import ActionsContextMissing

ENV = {
    "GITHUB_REPOSITORY": "octo/loops",
    "GITHUB_API_URL": "https://api.github.com",
    "GITHUB_SERVER_URL": "https://github.com/",
    "GITHUB_TOKEN": "ghs_secret",
    "GITHUB_EVENT_NAME": "workflow_run",
    "GITHUB_RUN_ID": "9001",
    "GITHUB_RUN_ATTEMPT": "2",
    "GITHUB_SHA": "a" * 40,
    "GITHUB_REF": "refs/heads/eve/faster",
    "GITHUB_WORKSPACE": "/work",
    "GITHUB_ACTOR": "dependabot[bot]",
}
NEXT = "\nIt is meant for a job of GitHub Actions: see perfgate's workflows."


def context(**changed: str) -> Context:
    return Context.from_env({**ENV, **changed})


def asked(name: str, **changed: str) -> object:
    return getattr(context(**changed), name)


def refused(name: str, **changed: str) -> str:
    with pytest.raises(ActionsContextMissing) as caught:
        asked(name, **changed)
    return str(caught.value)


def test_a_jobs_values_are_read() -> None:
    here = context()
    assert (here.repository, here.owner, here.branch) == ("octo/loops", "octo", "eve/faster")
    assert (here.api_url, here.server_url) == ("https://api.github.com", "https://github.com")
    assert (here.event_name, here.run_id, here.run_attempt) == ("workflow_run", 9001, 2)
    assert (here.sha, here.ref, here.actor) == (
        "a" * 40,
        "refs/heads/eve/faster",
        "dependabot[bot]",
    )
    assert (here.token, here.workspace) == ("ghs_secret", Path("/work"))


def test_addresses_are_built_of_what_the_job_was_told() -> None:
    here = context()
    assert here.run_url == "https://github.com/octo/loops/actions/runs/9001"
    assert here.page_of_run(7, 2) == "https://github.com/octo/loops/actions/runs/7/attempts/2"
    assert here.page_of_artifact(7, 8) == "https://github.com/octo/loops/actions/runs/7/artifacts/8"


def test_the_token_is_not_shown() -> None:
    assert "ghs_secret" not in repr(context())


ASKED = {
    "GITHUB_REPOSITORY": "repository",
    "GITHUB_API_URL": "api_url",
    "GITHUB_SERVER_URL": "server_url",
    "GITHUB_EVENT_NAME": "event_name",
    "GITHUB_RUN_ID": "run_id",
    "GITHUB_RUN_ATTEMPT": "run_attempt",
    "GITHUB_SHA": "sha",
    "GITHUB_REF": "ref",
    "GITHUB_WORKSPACE": "workspace",
    "GITHUB_ACTOR": "actor",
}


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("blank", ["", "  "])
def test_what_is_missing_is_missed_only_when_it_is_asked_for(name: str, blank: str) -> None:
    here = context(**{name: blank})
    assert here.token == "ghs_secret"
    assert (
        refused(ASKED[name], **{name: blank})
        == f"{name}: it is not set. GitHub Actions sets it in every job.{NEXT}"
    )


def test_every_name_has_its_property() -> None:
    assert set(ASKED) | {"GITHUB_TOKEN", "GITHUB_EVENT_PATH"} == set(NAMES)


def test_a_missing_token_is_told_with_the_line_that_hands_it_over() -> None:
    assert refused("token", GITHUB_TOKEN="") == (
        "GITHUB_TOKEN: it is not set. GitHub gives the token to a step only where the workflow hands it over.\n"
        "Add to the step: env: {GITHUB_TOKEN: ${{ github.token }}}"
    )


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("GITHUB_REPOSITORY", "octo", "It should be owner/name"),
        ("GITHUB_REPOSITORY", "octo/loops/more", "It should be owner/name"),
        ("GITHUB_REPOSITORY", "octo/..", "It should be owner/name"),
        ("GITHUB_REPOSITORY", "octo/x?y", "It should be owner/name"),
        ("GITHUB_API_URL", "file:///etc", "It should be an address as https://api.github.com"),
        (
            "GITHUB_API_URL",
            "https://user:pass@evil.example",
            "It should be an address as https://api.github.com",
        ),
        (
            "GITHUB_SERVER_URL",
            "https://x.example/a)b",
            "It should be an address as https://api.github.com",
        ),
        (
            "GITHUB_SERVER_URL",
            "https://x.example/?q",
            "It should be an address as https://api.github.com",
        ),
        (
            "GITHUB_SERVER_URL",
            "https://x.example:port",
            "It should be an address as https://api.github.com",
        ),
        ("GITHUB_RUN_ID", "0", "It should be a number from 1"),
        ("GITHUB_RUN_ID", "1e9", "It should be a number from 1"),
        ("GITHUB_RUN_ATTEMPT", "-1", "It should be a number from 1"),
        ("GITHUB_SHA", "abc", "It should be a commit"),
        ("GITHUB_REF", "main", "It should be refs/heads/..., for example"),
        ("GITHUB_EVENT_NAME", "Push!", "It should be the name of an event"),
        ("GITHUB_ACTOR", "a b", "It should be a login"),
    ],
)
def test_what_is_not_what_github_sets_is_refused(name: str, value: str, told: str) -> None:
    assert refused(ASKED[name], **{name: value}) == f'{name}: it is "{value}". {told}.{NEXT}'


@pytest.mark.parametrize(
    "address",
    ["http://127.0.0.1:8080/api/v3", "https://ghe.example.org/api/v3/", "http://[::1]:80"],
)
def test_a_github_elsewhere_has_an_address_too(address: str) -> None:
    assert asked("api_url", GITHUB_API_URL=address) == address.rstrip("/")


def test_a_tag_is_no_branch() -> None:
    assert refused("branch", GITHUB_REF="refs/tags/v1") == (
        f'GITHUB_REF: it is "refs/tags/v1". A branch is wanted: refs/heads/....{NEXT}'
    )


def test_a_token_with_a_line_break_is_none() -> None:
    assert refused("token", GITHUB_TOKEN="a\nb") == (
        f"GITHUB_TOKEN: it holds characters that no token has. It is one word of ASCII letters.{NEXT}"
    )


# The event


class Wanted(Payload):
    action: str
    number: int


def event(folder: Path, content: str | bytes) -> Context:
    file = folder / "event.json"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return context(GITHUB_EVENT_PATH=str(file))


def test_the_parts_of_an_event_that_are_wanted_are_read(tmp_path: Path) -> None:
    here = event(tmp_path, json.dumps({"action": "completed", "number": 7, "more": [1]}))
    assert here.event()["more"] == [1]
    assert here.event_as(Wanted) == Wanted(action="completed", number=7)


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"{", "the event is not JSON"),
        (b"\xff", "the event is not JSON"),
        (b"[]", "the event is not an object"),
        (b'{"a": NaN}', "the event is not JSON"),
        (b"[" * 100_000, "the event is not JSON"),
        (b" " * (LARGEST_EVENT + 1), "the event is too large"),
    ],
)
def test_an_event_that_is_none_is_refused(tmp_path: Path, content: bytes, fact: str) -> None:
    with pytest.raises(ActionsContextMissing) as caught:
        event(tmp_path, content).event()
    assert str(caught.value) == (
        f"{tmp_path}/event.json: {fact}. It should be a JSON object of at most 25 MiB.{NEXT}"
    )


def test_an_event_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        ActionsContextMissing, match="the event cannot be read: No such file or directory"
    ):
        context(GITHUB_EVENT_PATH=str(tmp_path / "none")).event()
    with pytest.raises(ActionsContextMissing, match="GITHUB_EVENT_PATH: it is not set"):
        context().event()


def test_another_event_is_told_without_what_a_stranger_wrote_in_it(tmp_path: Path) -> None:
    with pytest.raises(ActionsContextMissing) as caught:
        event(tmp_path, json.dumps({"action": "x", "number": "::error::evil"})).event_as(Wanted)
    assert str(caught.value) == (
        "event workflow_run: it is not what this command is for: number: Input should be a valid integer, unable to "
        f"parse string as an integer. It should be the event that the workflow of this command is started by.{NEXT}"
    )


@pytest.mark.parametrize("text", ["a" * 40, "0" * 64])
def test_a_commits_full_name_is_one(text: str) -> None:
    assert is_sha(text)


@pytest.mark.parametrize("text", ["", "a" * 39, "A" * 40, "a" * 41, "a" * 40 + "\n", "g" * 40])
def test_anything_else_is_no_commits_full_name(text: str) -> None:
    assert not is_sha(text)
