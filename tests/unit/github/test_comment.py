"""The comment on a pull request: of the right run, once, and nothing but text of what a stranger uploaded."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from support import records
from support.rest import BOT, NOON, NOT_ACCESSIBLE, Answer, GitHub, zipped

from perfgate.cli import cli
from perfgate.github.api import MOST_CHANGED_FILES, Artifact, ChangedFile, PullRequest, Repository
from perfgate.github.comment import (
    Act,
    Done,
    Finished,
    Found,
    Judges,
    Left,
    Mark,
    Part,
    body_of,
    comment,
    finished_run,
    part_of,
    read_untrusted,
)
from perfgate.github.context import Context
from perfgate.model.advice import Advice, Topic
from perfgate.model.baseline import Commit
from perfgate.model.document import DocumentWorkload, GateDocument, document_schema, document_text
from perfgate.model.errors import ActionsContextMissing, ArtifactUnreadable, GitHubRefused
from perfgate.model.limits import LARGEST_DOCUMENT, LONGEST_TEXT, MOST_ENTRIES, MOST_WORKLOADS
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.settings import Settings
from perfgate.model.verdict import Verdict

SHA, OTHER = "a" * 40, "b" * 40
RUN = 700


def document(*verdicts: Verdict, opens: bool | None = None, **more: object) -> GateDocument:
    """A gate of these verdicts for the pull request's commit, open where each of them is PASSED."""
    judged = verdicts or (records.verdict(),)
    open_each = [one.outcome is Outcome.PASSED for one in judged]
    state = all(open_each) if opens is None else opens
    made = GateDocument(
        perfgate="0.1.0",
        started_at=records.NOON,
        ended_at=records.NOON + timedelta(minutes=3),
        opens_gate=state,
        exit_status=int(not state),
        commit=Commit(sha=SHA, branch="faster"),
        settings=Settings(),
        workloads=tuple(
            DocumentWorkload(verdict=one, opens_gate=lets)
            for one, lets in zip(judged, open_each, strict=True)
        ),
    )
    return made.model_copy(update=more)


def event(
    *,
    run: int = RUN,
    attempt: int = 1,
    sha: str = SHA,
    branch: str | None = "faster",
    head: str | None = "octo/loops",
    conclusion: str = "success",
    workflow: str = "perfgate.yml",
) -> dict[str, object]:
    """The event of a finished run, as far as it matters; its list of pull requests is empty, as for forks."""
    whose = (
        None if head is None else {"full_name": head, "owner": {"login": head.partition("/")[0]}}
    )
    return {
        "action": "completed",
        "workflow_run": {
            "id": run,
            "run_attempt": attempt,
            "run_started_at": "2026-03-02T11:00:00Z",
            "name": "perfgate",
            "path": f".github/workflows/{workflow}",
            "event": "pull_request",
            "status": "completed",
            "conclusion": conclusion,
            "head_sha": sha,
            "head_branch": branch,
            "head_repository": whose,
            "pull_requests": [],
        },
        "repository": {"full_name": "octo/loops"},
    }


class Desk:
    """A pull request whose run has finished, and the command at work on it."""

    def __init__(self, hub: GitHub, folder: Path) -> None:
        self.hub = hub
        self.folder = folder
        self.number = hub.pull(branch="faster", sha=SHA)

    def context(self, told: Mapping[str, object], event_name: str = "workflow_run") -> Context:
        told_event = event(**told)  # type: ignore[arg-type]
        return Context.from_env(self.hub.env_of(event_name, told_event, self.folder))

    def uploads(self, found: GateDocument | bytes | str, *, run: int = RUN) -> None:
        """The run leaves an artifact: a document, or what stands in its file."""
        content = document_text(found) if isinstance(found, GateDocument) else found
        self.hub.artifact(
            run, "perfgate", {"perfgate.json": content, "perfgate.html": "<h1>page</h1>"}
        )

    def comments(self, repository: Repository, **told: object) -> tuple[Done, ...]:
        """The command, for the run of an event."""
        run = int(str(told.get("run", RUN)))
        self.hub.artifacts.setdefault(run, [])
        return comment(repository, self.context(told))

    @property
    def body(self) -> str:
        """The one comment of ours."""
        (ours,) = (one for one in self.hub.comments[self.number] if one["user"] == user(BOT))
        return str(ours["body"])


def user(login: str) -> dict[str, object]:
    return {"login": login, "id": 1, "type": "Bot" if login.endswith("[bot]") else "User"}


@pytest.fixture
def desk(hub: GitHub, tmp_path: Path) -> Desk:
    return Desk(hub, tmp_path)


def mark(*, run: int = RUN, attempt: int = 1, commit: str = SHA, left: Left = Left.RESULT) -> str:
    return Mark(run=run, attempt=attempt, commit=commit, left=left).text


# What is said


def test_a_result_is_told_with_its_page_its_commit_and_its_run(
    desk: Desk, repository: Repository
) -> None:
    desk.uploads(document())
    (done,) = desk.comments(repository)
    artifact = desk.hub.artifacts[RUN][0]["id"]
    made = desk.hub.comments[desk.number][0]["id"]
    here = "https://github.example/octo/loops"
    assert done.sentence == (
        f"pull request {desk.number}: commented: {here}/pull/{desk.number}#issuecomment-{made}"
    )
    assert desk.body == (
        f"<!-- perfgate run={RUN} attempt=1 commit={SHA} result=yes -->\n"
        "## perfgate: gate \u2705 open\n"
        "\n"
        f"[The page with plots and timelines]({here}/actions/runs/{RUN}/artifacts/{artifact})\n"
        "\n"
        "| workload | outcome | step_ms | change | budget | runs | |\n"
        "|---|---|---|---|---|---|---|\n"
        "| `mlp` | \u2705 PASSED |  |  |  | 3 runs | within budget |\n"
        "\n"
        "---\n"
        "\n"
        f"Commit [`aaaaaaaaaaaa`]({here}/pull/{desk.number}/commits/{SHA}), "
        f"[run {RUN}, attempt 1]({here}/actions/runs/{RUN}/attempts/1), which ended as `success`.\n"
    )


def test_what_the_artifact_says_is_not_believed_against_the_run(
    desk: Desk, repository: Repository
) -> None:
    desk.uploads(document())
    desk.comments(repository, conclusion="failure")
    assert (
        "which ended as `failure`.\n**The run itself did not succeed, whatever the gate says above.**\n"
        in desk.body
    )


@pytest.mark.behaviour
def test_a_comment_holds_no_secret_of_a_document(desk: Desk, repository: Repository) -> None:
    token = "ghp_" + "Zz9Yy8Xx7Ww6Vv5Uu4Tt3"
    desk.uploads(document(opens=False, shut_by=(f"mlp: no access with {token}",), label=token))
    desk.comments(repository)
    assert "no access with" in desk.body
    assert token not in desk.body.replace("\\", "").replace("\u200b", "")


def test_changes_that_were_not_committed_are_told(desk: Desk, repository: Repository) -> None:
    desk.uploads(document(commit=Commit(sha=SHA, dirty=True)))
    desk.comments(repository)
    assert desk.body.endswith("\nThere were uncommitted changes when it was measured.\n")


def test_a_result_of_an_earlier_attempt_is_told_as_such(desk: Desk, repository: Repository) -> None:
    packed = {"perfgate.json": document_text(document())}
    desk.hub.artifact(RUN, "perfgate", packed, created_at=NOON - timedelta(hours=3))
    desk.comments(repository, attempt=2, conclusion="cancelled")
    assert "The result is of an earlier attempt of this run: the latest left none." in desk.body


def test_the_newest_of_several_attempts_is_told(desk: Desk, repository: Repository) -> None:
    desk.uploads(document(records.verdict(Outcome.REGRESSED)))
    desk.uploads(document())
    desk.comments(repository, attempt=2)
    assert "## perfgate: gate \u2705 open" in desk.body


NONE = "## perfgate: no result\n\nCommit [`aaaaaaaaaaaa`]("


@pytest.mark.parametrize("conclusion", ["cancelled", "failure", "timed_out"])
def test_a_run_without_an_artifact_is_told_in_one_line(
    desk: Desk, repository: Repository, conclusion: str
) -> None:
    desk.hub.artifact(RUN, "another", {"perfgate.json": document_text(document())})
    (done,) = desk.comments(repository, conclusion=conclusion)
    assert done.act is Act.CREATED
    first, *rest = desk.body.splitlines()
    assert first == mark(left=Left.NONE)
    assert "\n".join(rest).startswith(NONE)
    assert rest[-1].endswith(f", which ended as `{conclusion}`. It left no result.")
    assert len(rest) == 3
    assert desk.hub.fetched == []


def test_an_expired_result_is_told(desk: Desk, repository: Repository) -> None:
    desk.hub.artifact(RUN, "perfgate", b"x", expired=True)
    desk.comments(repository)
    assert desk.body.endswith(" Its result has expired.\n")


HINT = "A maintainer who has read the code starts the gate with the label `perfgate-approved`.\n"


@pytest.fixture
def fork(desk: Desk) -> int:
    """The number of a fork's pull request."""
    return desk.hub.pull(branch="faster", sha=SHA, head="eve/loops")


@pytest.mark.parametrize(
    ("conclusion", "why"),
    [("failure", "It left no result."), ("action_required", "No job of it ran.")],
)
def test_a_fork_that_waits_for_a_maintainer_is_told_how_it_goes_on(
    desk: Desk, repository: Repository, fork: int, conclusion: str, why: str
) -> None:
    (done,) = desk.comments(repository, head="eve/loops", conclusion=conclusion)
    assert done.number == fork
    body = str(desk.hub.comments[fork][0]["body"])
    assert Mark.read(body) == Mark(run=RUN, attempt=1, commit=SHA, left=Left.NOT_RUN)
    assert body.endswith(f"which ended as `{conclusion}`. {why}\n{HINT}")


@pytest.mark.parametrize(
    ("told", "artifact"),
    [
        ({"conclusion": "failure", "workflow": "perfgate-approved.yml"}, None),
        ({"conclusion": "cancelled"}, None),
        ({"conclusion": "failure"}, "kept-perfgate-h200-1"),
    ],
)
def test_a_gate_of_a_fork_that_ran_and_left_nothing_does_not_wait(
    desk: Desk, repository: Repository, fork: int, told: Mapping[str, str], artifact: str | None
) -> None:
    if artifact is not None:
        desk.hub.artifact(RUN, artifact, b"x")
    desk.comments(repository, head="eve/loops", **told)
    body = str(desk.hub.comments[fork][0]["body"])
    assert Mark.read(body) == Mark(run=RUN, attempt=1, commit=SHA, left=Left.NONE)
    assert body.endswith(" It left no result.\n")


def test_a_gate_of_the_repository_itself_that_left_nothing_waits_for_nobody(
    desk: Desk, repository: Repository
) -> None:
    desk.comments(repository, conclusion="failure")
    assert desk.body.startswith(f"{mark(left=Left.NONE)}\n")
    assert desk.body.endswith(" It left no result.\n")


# Which pull request


@pytest.mark.parametrize(
    "told",
    [
        {"sha": OTHER},
        {"branch": "main"},
        {"branch": None},
        {"head": None},
        {"head": "eve/loops"},
        {"head": "octo/other"},
    ],
)
def test_a_run_that_is_of_no_open_pull_request_is_nothing_to_comment_on(
    desk: Desk, repository: Repository, told: Mapping[str, object]
) -> None:
    desk.uploads(document())
    assert desk.comments(repository, **told) == ()
    assert desk.hub.changes == []
    assert desk.hub.fetched == []


def test_the_artifact_does_not_say_where_it_is_told(desk: Desk, repository: Repository) -> None:
    """Its commit names another pull request: it is told of none, and only where the event says."""
    other = desk.hub.pull(branch="victim", sha=OTHER)
    desk.uploads(document(commit=Commit(sha=OTHER, branch="victim")))
    (done,) = desk.comments(repository)
    assert done.number == desk.number
    assert desk.hub.comments[other] == []
    assert desk.body.endswith(
        " It left no result that can be trusted for this commit: perfgate\\.json is of another commit.\n"
    )


def test_two_pull_requests_of_one_head_are_each_told(desk: Desk, repository: Repository) -> None:
    second = desk.hub.pull(branch="faster", sha=SHA, base="stable")
    desk.uploads(document())
    assert [done.number for done in desk.comments(repository)] == [desk.number, second]
    assert f"/pull/{second}/commits/" in str(desk.hub.comments[second][0]["body"])


def test_another_event_is_refused(desk: Desk) -> None:
    with pytest.raises(ActionsContextMissing) as caught:
        finished_run(desk.context({}, "pull_request"))
    assert str(caught.value) == (
        "perfgate github comment: the event is pull_request. "
        "It comments on what a finished run left, at the event workflow_run.\n"
        "Call it in a workflow with on: {workflow_run: {workflows: [perfgate], types: [completed]}}"
    )


@pytest.mark.parametrize("told", [{"sha": "HEAD"}, {"sha": ""}, {"run": 0}, {"attempt": 0}])
def test_an_event_that_github_does_not_send_is_refused(
    desk: Desk, told: Mapping[str, object]
) -> None:
    with pytest.raises(ActionsContextMissing):
        finished_run(desk.context(told))


# One comment, edited in place


def test_the_comment_is_edited_in_place(desk: Desk, repository: Repository) -> None:
    desk.uploads(document(records.verdict(Outcome.REGRESSED)))
    desk.comments(repository, conclusion="failure")
    desk.uploads(document(), run=RUN + 1)
    (done,) = desk.comments(repository, run=RUN + 1)
    assert (done.act, "edited the comment" in done.sentence) == (Act.EDITED, True)
    assert desk.body.startswith(mark(run=RUN + 1))


def test_it_is_found_among_hundreds_and_the_oldest_of_ours_is_edited(
    desk: Desk, repository: Repository
) -> None:
    for n in range(230):
        desk.hub.comment(desk.number, f"comment {n}", author="eve")
    ours = desk.hub.comment(desk.number, mark(run=1))
    doubled = desk.hub.comment(desk.number, mark(run=2))
    desk.uploads(document())
    (done,) = desk.comments(repository)
    assert done.url.endswith(f"-{ours}")
    assert desk.hub.changes == [f"PATCH /issues/comments/{ours}"]
    assert next(one for one in desk.hub.comments[desk.number] if one["id"] == doubled)[
        "body"
    ] == mark(run=2)


@pytest.mark.parametrize(
    ("author", "body"),
    [
        ("eve", mark(run=9999)),
        ("github-actions", mark(run=9999)),
        (None, mark(run=9999)),
        (BOT, f"> {mark(run=9999)}"),
        (BOT, f"quoted:\n{mark(run=9999)}"),
        (BOT, "<!-- perfgate -->"),
        (BOT, "<!-- perfgate run=9999 attempt=1 -->"),
    ],
)
def test_a_comment_that_only_looks_like_ours_is_left_alone(
    desk: Desk, repository: Repository, author: str | None, body: str
) -> None:
    desk.hub.comment(desk.number, body, author=author)
    desk.uploads(document())
    (done,) = desk.comments(repository)
    assert done.act is Act.CREATED
    assert desk.hub.comments[desk.number][0]["body"] == body


def test_a_comment_that_says_it_already_is_not_touched(desk: Desk, repository: Repository) -> None:
    desk.uploads(document())
    desk.comments(repository)
    there = desk.hub.comments[desk.number][0]
    there["body"] = str(there["body"]).replace("\n", "\r\n").strip()
    changes = len(desk.hub.changes)
    (done,) = desk.comments(repository)
    assert done.act is Act.UNCHANGED
    assert "the comment says this already" in done.sentence
    assert len(desk.hub.changes) == changes


@pytest.mark.parametrize("newer", [{"run": RUN + 1}, {"attempt": 2}])
def test_an_older_run_that_ends_later_does_not_overwrite(
    desk: Desk, repository: Repository, newer: Mapping[str, int]
) -> None:
    desk.hub.comment(
        desk.number, f"{mark(run=newer.get('run', RUN), attempt=newer.get('attempt', 1))}\nnewer"
    )
    desk.uploads(document())
    (done,) = desk.comments(repository)
    assert done.act is Act.NEWER
    assert "is of a newer run" in done.sentence
    assert desk.hub.changes == []


def test_a_run_that_was_skipped_neither_comments_nor_overwrites(
    desk: Desk, repository: Repository
) -> None:
    """As any label on the pull request starts one."""
    told = {"run": RUN + 1, "conclusion": "skipped", "workflow": "perfgate-approved.yml"}
    assert desk.comments(repository, **told) == ()
    assert desk.hub.comments[desk.number] == []
    desk.hub.comment(desk.number, f"{mark(run=1, commit=OTHER)}\nold")
    assert desk.comments(repository, **told) == ()
    assert desk.body == f"{mark(run=1, commit=OTHER)}\nold"
    assert [line for line in desk.hub.lines if "/pulls" in line or "/issues" in line] == []


def test_an_approved_gate_takes_the_place_of_the_run_that_waited(
    desk: Desk, repository: Repository, fork: int
) -> None:
    desk.comments(repository, head="eve/loops", conclusion="failure")
    desk.uploads(document(), run=RUN + 1)
    (done,) = desk.comments(
        repository, run=RUN + 1, head="eve/loops", workflow="perfgate-approved.yml"
    )
    assert (done.act, done.number) == (Act.EDITED, fork)
    (late,) = desk.comments(repository, head="eve/loops", conclusion="failure")
    assert late.act is Act.NEWER
    assert Mark.read(str(desk.hub.comments[fork][0]["body"])) == Mark(
        run=RUN + 1, attempt=1, commit=SHA, left=Left.RESULT
    )


def test_a_run_that_waits_takes_no_result_of_its_commit_away(
    desk: Desk, repository: Repository, fork: int
) -> None:
    """As one does that reopens the pull request."""
    desk.uploads(document())
    desk.comments(repository, head="eve/loops", workflow="perfgate-approved.yml")
    before = desk.hub.comments[fork][0]["body"]
    (done,) = desk.comments(repository, run=RUN + 1, head="eve/loops", conclusion="failure")
    assert done.act is Act.KEPT
    assert done.sentence.removesuffix(done.url) == (
        f"pull request {fork}: the comment is of this commit, this run measured nothing, and it was left as it is: "
    )
    assert desk.hub.comments[fork][0]["body"] == before


def test_an_approved_gate_that_ends_after_a_newer_run_that_waits_still_tells_its_result(
    desk: Desk, repository: Repository, fork: int
) -> None:
    (waits,) = desk.comments(repository, run=RUN + 1, head="eve/loops", conclusion="failure")
    assert waits.act is Act.CREATED
    desk.uploads(document())
    (done,) = desk.comments(repository, head="eve/loops", workflow="perfgate-approved.yml")
    assert done.act is Act.EDITED
    assert str(desk.hub.comments[fork][0]["body"]).startswith(f"{mark()}\n")


def test_a_newer_commit_that_waits_is_not_hidden_by_an_older_commits_result(
    desk: Desk, repository: Repository
) -> None:
    desk.hub.comment(desk.number, f"{mark(run=RUN + 1, commit=OTHER, left=Left.NOT_RUN)}\nwaits")
    desk.uploads(document())
    (done,) = desk.comments(repository)
    assert done.act is Act.NEWER
    assert desk.hub.changes == []


def test_a_run_that_crashed_does_not_give_way_to_an_older_result(
    desk: Desk, repository: Repository
) -> None:
    desk.hub.comment(desk.number, f"{mark(run=RUN + 1, left=Left.NONE)}\ncrashed")
    desk.uploads(document())
    (done,) = desk.comments(repository)
    assert done.act is Act.NEWER


def test_a_result_of_another_commit_does_not_stay(desk: Desk, repository: Repository) -> None:
    desk.hub.comment(desk.number, f"{mark(run=1, commit=OTHER)}\nold")
    (done,) = desk.comments(repository, conclusion="action_required")
    assert done.act is Act.EDITED
    assert "no result" in desk.body


def test_a_run_that_crashed_does_not_leave_an_older_result_standing(
    desk: Desk, repository: Repository
) -> None:
    desk.uploads(document())
    desk.comments(repository)
    (done,) = desk.comments(repository, run=RUN + 1, conclusion="failure")
    assert done.act is Act.EDITED
    assert "It left no result." in desk.body


@pytest.mark.parametrize("line", ["GET /pulls", "GET /actions", "GET /issues"])
def test_a_request_that_fails_is_an_error(desk: Desk, repository: Repository, line: str) -> None:
    desk.uploads(document())
    desk.hub.fail(line, Answer(404, {"message": "Not Found"}))
    with pytest.raises(GitHubRefused):
        desk.comments(repository)
    assert desk.hub.comments[desk.number] == []


# What is not trusted


def packed(text: str | bytes) -> bytes:
    return zipped({"perfgate.json": text})


def distrusted(content: bytes) -> str:
    with pytest.raises(ArtifactUnreadable) as caught:
        read_untrusted(content, SHA)
    return caught.value.fact


def changed(**changes: object) -> bytes:
    return packed(json.dumps(json.loads(document_text(document())) | changes))


def test_a_document_is_read_as_it_was_written() -> None:
    whole = document(records.verdict(Outcome.REGRESSED, remarks=("one",)), records.verdict())
    assert read_untrusted(packed(document_text(whole)), SHA) == whole


def nested(depth: int) -> str:
    return '{"workloads": ' + "[" * depth + "]" * depth + "}"


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"", "it is no zip file that can be read: File is not a zip file"),
        (zipped({"page.html": "x"}), "there is no perfgate.json in it"),
        (zipped({"a/perfgate.json": "x"}), "there is no perfgate.json in it"),
        (
            zipped({"perfgate.json": "{}", "../x": "y"}),
            'its member "../x" has a name that leads elsewhere',
        ),
        (
            zipped({"perfgate.json": b"0" * (LARGEST_DOCUMENT + 1)}),
            'its member "perfgate.json" is too large',
        ),
        (
            zipped({"perfgate.json": "{}", **{str(n): "" for n in range(100)}}),
            "it has more than 100 members",
        ),
        (changed(commit=None), "perfgate.json does not say which commit it is of"),
        (changed(commit={"sha": OTHER}), "perfgate.json is of another commit"),
        (
            changed(commit={"sha": SHA[:12]}),
            (
                "perfgate.json is not what its schema says: commit.sha: String should match pattern "
                "'^(?:[0-9a-f]{40}|[0-9a-f]{64})$'"
            ),
        ),
        (
            changed(commit={"sha": SHA.upper()}),
            (
                "perfgate.json is not what its schema says: commit.sha: String should match pattern "
                "'^(?:[0-9a-f]{40}|[0-9a-f]{64})$'"
            ),
        ),
        (changed(workloads=[]), "perfgate.json says that the gate is open, and holds no workload"),
        (
            changed(exit_status=1),
            "perfgate.json says that the gate is open, and what keeps it shut",
        ),
        (
            changed(shut_by=["x"]),
            "perfgate.json says that the gate is open, and what keeps it shut",
        ),
        (
            changed(perfgate="x" * (LONGEST_TEXT + 1)),
            f"perfgate.json holds a text of more than {LONGEST_TEXT} characters",
        ),
        (
            changed(opens_gate=False, shut_by=["x"] * (MOST_ENTRIES + 1)),
            "perfgate.json holds more than 10000 entries in one place",
        ),
    ],
)
def test_a_result_that_cannot_be_trusted_is_refused_in_words(content: bytes, fact: str) -> None:
    assert distrusted(content) == fact


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{",
        "\xff",
        nested(300),
        nested(100_000),
        '{"format": 1, "format": 2}',
        '{"a": ' + "9" * 10_000 + "}",
    ],
)
def test_what_is_no_document_is_refused_in_words(text: str) -> None:
    assert distrusted(packed(text)).startswith("perfgate.json is not ")


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 3},
        {"format": "1"},
        {"format": True},
        {"novelty": 1},
        {"opens_gate": "true"},
        {"opens_gate": 1},
        {"exit_status": -1},
        {"exit_status": True},
        {"perfgate": 7},
        {"workloads": {}},
        {"workloads": [1]},
        {"shut_by": "x"},
        {"shut_by": [None]},
        {"settings": {"anchor_budget": 2}},
        {"machine": "H200"},
        {"started_at": 7},
    ],
)
def test_what_the_published_schema_refuses_is_refused(changes: Mapping[str, object]) -> None:
    whole = json.loads(document_text(document())) | changes
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(whole, document_schema())
    assert distrusted(packed(json.dumps(whole))).startswith(
        "perfgate.json is not what its schema says: "
    )


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_is_none_is_refused(number: str) -> None:
    text = document_text(document()).replace('"anchor_budget": 0.05', f'"anchor_budget": {number}')
    assert number in text
    assert distrusted(packed(text)).startswith("perfgate.json is not what its schema says: ")


@pytest.mark.parametrize(
    "outcome", [Outcome.REGRESSED, Outcome.INVALID, Outcome.NOT_MEASURED, Outcome.INCOMPARABLE]
)
@pytest.mark.parametrize("opens", [True, False])
def test_an_outcome_that_never_opens_a_gate_does_not_open_one(
    outcome: Outcome, opens: bool
) -> None:
    whole = document(records.verdict(outcome), opens=opens)
    lying = whole.workloads[0].model_copy(update={"opens_gate": True})
    assert distrusted(packed(document_text(whole.model_copy(update={"workloads": (lying,)})))) == (
        "perfgate.json says of a workload that it opens the gate, and of its outcome what never does"
    )


def test_more_workloads_than_anybody_has_are_refused() -> None:
    whole = document(
        *(records.verdict(name=f"w{n}", metrics=()) for n in range(MOST_WORKLOADS + 1))
    )
    text = whole.model_dump_json()
    assert distrusted(packed(text)) == f"perfgate.json holds more than {MOST_WORKLOADS} workloads"


@given(st.data())
@settings(max_examples=200)
def test_whatever_is_changed_in_a_document_it_is_refused_in_words_or_told(
    data: st.DataObject,
) -> None:
    """One value somewhere becomes another; what the schema refuses is never taken."""
    whole = json.loads(document_text(document(records.verdict(Outcome.REGRESSED, metrics=METRICS))))
    holder: dict[str, object] | list[object] = whole
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key = data.draw(st.sampled_from(keys))
        inner = holder[key]  # type: ignore[call-overload, index]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            break
        holder = inner
    leaf = (
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text()
    )
    holder[key] = data.draw(leaf | st.lists(leaf, max_size=3))  # type: ignore[call-overload, index]
    try:
        taken = read_untrusted(packed(json.dumps(whole)), SHA)
    except ArtifactUnreadable as error:
        assert "\n" not in error.fact  # noqa: PT017 - either is right
    else:
        jsonschema.validate(whole, document_schema())
        assert told(taken).startswith(mark())


# Hostile text


METRICS = (
    records.clock(
        Metric.STEP_MS,
        Outcome.REGRESSED,
        was=12.34,
        now=14.2,
        change=0.151,
        around=0.004,
        p_value=0.00001,
    ),
    records.clock(
        Metric.KERNEL_MS, Outcome.PASSED, was=9.1, now=9.1, change=0.0, around=0.001, p_value=0.5
    ),
)

HOSTILE = [
    "@octocat and @octo/maintainers, please approve",
    "closes #1, GH-1, octo/loops#2, octo/loops@0123456789abcdef0123456789abcdef01234567",
    "mail eve@evil.example or mailto:eve@evil.example or xmpp:eve@evil.example",
    "<script>alert(1)</script><img src=x onerror=alert(1)><a href=https://evil.example>x</a>",
    "<details><summary>x</summary>",
    "</code></td></tr></table><h1>gate open</h1>",
    "[click](https://evil.example) [x][y] <https://evil.example>",
    "[y]: https://evil.example",
    "![x](https://evil.example/x.png)",
    "https://evil.example www.evil.example ftp://evil.example HTTP://EVIL.example",
    "``` \n# heading\n- item\n> quote\n| a | b |\n|---|---|\n---\n===\n1. one",
    "a | b \\| c `d` ``e`` ~~~",
    "*bold* __bold__ ~~struck~~ $x$ $$y$$",
    "::error file=x::evil\n::add-mask::x\n##[error]evil\n::stop-commands::x",
    "<!-- perfgate run=99999999 attempt=9 commit=" + OTHER + " result=yes -->",
    "--> <!-- perfgate -->",
    "\x1b[2J\u202eevil\u2066x\x00\u200d\ufeff",
    "\\`\\[\\\\",
    "&lt;b&gt; &amp; &#60;img&#62; &commat;octocat",
    "\u2028::error::x\u0085::error::y\x0b::error::z",
    "> [!WARNING]\n> x",
    ":tada: :octocat:",
    "x" * 99_999,
    "\U0001f600" * 40_000,
]


def everywhere(text: str) -> GateDocument:
    """A document that is valid and has a text wherever there may be one."""
    verdict = records.verdict(
        Outcome.REGRESSED,
        name=text,
        reason=text,
        next_step=text,
        metrics=[row.model_copy(update={"reason": text}) for row in METRICS],
        where={Metric.STEP_MS: text},
        remarks=(text,) * 3,
    )
    advice = Advice(topic=Topic.LOADER, range=text, evidence=text, usually=text)
    verdict = verdict.model_copy(update={"ranks": (text,), "advice": (advice,)})
    workload = DocumentWorkload(
        verdict=verdict,
        opens_gate=False,
        baseline=text,
        files=text,
        source=text,
        line=1,
        gate=text,
        machine=records.machine(text),
    )
    other = workload.model_copy(update={"machine": records.machine("NVIDIA H100")})
    return document(opens=False).model_copy(
        update={
            "perfgate": text,
            "shut_by": (text, text),
            "label": text,
            "remarks": (text,),
            "commit": Commit(sha=SHA, branch=text),
            "workloads": (workload, other, other),
        }
    )


def told(found: GateDocument, judges: Judges | None = None) -> str:
    """The comment of a document."""
    run = Finished.model_validate(event()).workflow_run
    here = Context.from_env(
        {
            "GITHUB_REPOSITORY": "octo/loops",
            "GITHUB_SERVER_URL": "https://github.example",
            "GITHUB_RUN_ID": "1",
        }
    )
    made = Mark(run=run.id, attempt=run.run_attempt, commit=run.head_sha, left=Left.RESULT)
    artifact = Artifact(id=8, name="perfgate", size_bytes=1, expired=False, created_at=NOON)
    return body_of(
        made, here, run, PULL, Found(document=found, artifact=artifact), judges or Judges()
    )


def rendered(markdown: str) -> str:
    """As GitHub shows it: tables, bare addresses as links, HTML let through."""
    return str(
        MarkdownIt("commonmark", {"html": True, "linkify": True})
        .enable(["table", "strikethrough", "linkify"])
        .render(markdown)
    )


PULL = PullRequest(
    number=7,
    open=True,
    title="Faster",
    url="https://github.example/octo/loops/pull/7",
    author="eve",
    head_sha=SHA,
    head_branch="faster",
    head_repository="octo/loops",
    base_branch="main",
    base_repository="octo/loops",
)
OURS = re.compile(
    r"https://github\.example/octo/loops/(?:actions/runs/700/artifacts/8|actions/runs/700/attempts/1|pull/7/commits/a{40})"
)


def is_inert(body: str) -> None:
    """Nothing in a comment but our own hidden line, headings, tables, lists, code and three links."""
    page = rendered(body)
    assert page.startswith(f"{mark()}\n")
    assert page.count("<!--") == page.count("-->") == 1
    shown = page.removeprefix(mark())
    tags = set(re.findall(r"<\s*/?\s*([a-zA-Z!?][^\s/>]*)", shown))
    assert tags <= {
        *("h2", "h3", "p", "ul", "li", "strong", "code", "hr", "a"),
        *("table", "thead", "tbody", "tr", "th", "td"),
    }
    links = re.findall(r'<a href="([^"]*)"', shown)
    assert len(links) <= 3
    assert all(OURS.fullmatch(link) for link in links), links
    assert "<img" not in shown
    assert shown.count("<h2>") == 1
    outside = re.sub(r"<a href=[^>]*>.*?</a>", "", shown, flags=re.DOTALL)
    text = html.unescape(re.sub(r"<code>.*?</code>", "", outside, flags=re.DOTALL))
    assert not re.search(r"@[a-zA-Z]|#\d|\w://\w|www\.|GH-\d", text)
    assert not any(
        re.match(r"\s*(::|##\[)", line)
        for line in re.split(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]", body)
    )
    assert not re.search(
        r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ufeff]", body
    )
    assert len(body.encode("utf-16-le")) // 2 <= 65_536


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_only_text(text: str) -> None:
    content = packed(document_text(everywhere(text)))
    is_inert(told(read_untrusted(content, SHA)))


@given(st.text(max_size=300))
def test_any_text_is_only_text(text: str) -> None:
    is_inert(told(everywhere(text)))


def test_many_long_texts_still_fit_a_comment() -> None:
    long = "\U0001f600[x](y)@z " * 100
    verdicts = [
        records.verdict(Outcome.REGRESSED, name=f"{n}{long}", reason=long, remarks=(long,) * 9)
        for n in range(300)
    ]
    whole = document(*verdicts, opens=False, shut_by=(long,) * 900, remarks=(long,) * 900)
    is_inert(told(read_untrusted(packed(document_text(whole)), SHA)))


@pytest.mark.parametrize("text", HOSTILE[:16])
def test_a_hostile_reason_for_having_no_result_is_only_text(
    text: str, desk: Desk, repository: Repository
) -> None:
    desk.hub.artifact(RUN, "perfgate", zipped({"perfgate.json": "{}", f"../{text}"[:400]: "x"}))
    desk.comments(repository)
    body = desk.body
    assert body.startswith(mark(left=Left.NONE))
    page = rendered(body)
    assert page.count("<!--") == 1
    assert set(re.findall(r"<(\w+)", page)) <= {"h2", "p", "a", "code"}
    assert len(re.findall(r"<a href", page)) == 2
    assert "it left no result that can be trusted for this commit" in html.unescape(page).lower()
    assert not any(line.startswith(("::", "##[")) for line in body.splitlines())


# What of the pull request judges it


def judges(*paths: str) -> Judges:
    return Judges.of(ChangedFile(path=path, previous_path=None, status="added") for path in paths)


@pytest.mark.parametrize(
    ("path", "part"),
    [
        *(
            (f, Part.SETTINGS)
            for f in ("pyproject.toml", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml")
        ),
        ("tox.ini", Part.SETTINGS),
        ("setup.cfg", Part.SETTINGS),
        ("sub/project/pyproject.toml", Part.SETTINGS),
        ("workloads/pyproject.toml", Part.SETTINGS),
        ("conftest.py", Part.CONFTEST),
        ("workloads/conftest.py", Part.CONFTEST),
        ("baselines/h200/mlp.json", Part.BASELINES),
        ("sub/project/baselines/mlp.json", Part.BASELINES),
        ("workloads/mlp.py", Part.WORKLOADS),
        (".github/workflows/perfgate.yml", Part.GITHUB),
        (".github/baselines/x", Part.GITHUB),
        ("Baselines/mlp.json", Part.BASELINES),
        ("sub/ConfTest.py", Part.CONFTEST),
        ("baselines", Part.BASELINES),
        ("a/../workloads/x", Part.WORKLOADS),
        ("src/model.py", None),
        ("my_baselines/x.json", None),
        ("baselines.json", None),
        ("workloads.py", None),
        ("my_conftest.py", None),
        ("pyproject.toml.orig", None),
        ("pyproject.toml/x", None),
        (".github.md", None),
    ],
)
def test_a_path_belongs_to_what_judges_by_its_file_or_a_folder_above_it(
    path: str, part: Part | None
) -> None:
    assert part_of(path) is part


def test_what_judges_is_told_above_the_footer(desk: Desk, repository: Repository) -> None:
    paths = (
        "src/model.py",
        "baselines/b.json",
        "pyproject.toml",
        ".github/workflows/x.yml",
        "baselines/a.json",
    )
    for path in (*paths, "workloads/mlp.py", "conftest.py"):
        desk.hub.change(desk.number, path)
    desk.uploads(document())
    desk.comments(repository)
    assert (
        "| within budget |\n"
        "\n"
        "**This pull request changes what judges it:** baselines (2 files), workloads (1 file), conftest (1 file), "
        "settings (1 file), .github (1 file): `baselines/a.json`, `baselines/b.json`, `workloads/mlp.py`, "
        "`conftest.py`, `pyproject.toml`, `.github/workflows/x.yml`.\n"
        "\n"
        "---\n"
        "\n"
        "Commit [" in desk.body
    )
    is_inert(told(document(), judges(*paths)))


def test_what_judges_is_told_of_a_run_that_left_nothing_too(
    desk: Desk, repository: Repository, fork: int
) -> None:
    desk.hub.change(fork, "workloads/mlp.py")
    desk.comments(repository, head="eve/loops", conclusion="failure")
    body = str(desk.hub.comments[fork][0]["body"])
    assert (
        "## perfgate: no result\n\n"
        "**This pull request changes what judges it:** workloads (1 file): `workloads/mlp.py`.\n\n"
        "Commit [" in body
    )
    assert body.endswith(HINT)


def test_of_files_that_judge_nothing_nothing_is_told(desk: Desk, repository: Repository) -> None:
    desk.hub.change(desk.number, "src/model.py")
    desk.uploads(document())
    desk.comments(repository)
    assert f"GET /pulls/{desk.number}/files" in desk.hub.lines
    assert "judges" not in desk.body


def test_a_baseline_that_is_renamed_away_is_told_by_its_old_name(
    desk: Desk, repository: Repository
) -> None:
    desk.hub.change(desk.number, "old/mlp.json", status="renamed", previous="baselines/mlp.json")
    desk.hub.change(desk.number, "old/gpt.json", status="copied", previous="baselines/gpt.json")
    desk.uploads(document())
    desk.comments(repository)
    assert (
        "**This pull request changes what judges it:** baselines (1 file): `baselines/mlp.json`.\n"
        in desk.body
    )


def test_a_baseline_that_is_removed_is_told(desk: Desk, repository: Repository) -> None:
    desk.hub.change(desk.number, "baselines/mlp.json", status="removed")
    desk.uploads(document())
    desk.comments(repository)
    assert "baselines (1 file): `baselines/mlp.json`.\n" in desk.body


def test_files_of_250_are_counted_over_all_pages_and_ten_named(
    desk: Desk, repository: Repository
) -> None:
    for n in range(249):
        desk.hub.change(desk.number, f"baselines/{n:03}.json")
    desk.hub.change(desk.number, "z/conftest.py")
    desk.uploads(document())
    desk.comments(repository)
    names = ", ".join(f"`baselines/{n:03}.json`" for n in range(9))
    assert (
        "**This pull request changes what judges it:** baselines (249 files), conftest (1 file): "
        f"{names}, `z/conftest.py` and 240 more.\n" in desk.body
    )


def test_what_lies_beyond_the_files_that_github_lists_is_not_known(
    desk: Desk, repository: Repository
) -> None:
    for n in range(MOST_CHANGED_FILES):
        desk.hub.change(desk.number, f"a/{n}")
    desk.hub.change(desk.number, "conftest.py")
    desk.uploads(document())
    desk.comments(repository)
    unknown = "**Whether this pull request changes what judges it is not known:** GitHub lists only 3000 of its files.\n"
    assert unknown in desk.body
    desk.hub.changed[desk.number].insert(0, {"filename": "tox.ini", "status": "added"})
    desk.comments(repository)
    assert (
        "**This pull request changes what judges it:** settings (1 file): `tox.ini`. "
        "Whether it changes more of it is not known: GitHub lists only 3000 of its files.\n"
        in desk.body
    )


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (NOT_ACCESSIBLE, "GitHub answered 403: Resource not accessible by integration."),
        (
            Answer(422, {"message": "@eve <img src=x>"}),
            "GitHub answered 422: @\u200beve &lt;img src=x&gt;.",
        ),
        (Answer(502, b""), "GitHub answered 502: nothing more."),
        (
            Answer(200, [{"filename": "x", "status": "novel"}]),
            (
                "the answer is not what GitHub's REST API says: 0\\.status: Input should be 'added', 'removed', "
                "'modified', 'renamed', 'copied', 'changed' or 'unchanged'."
            ),
        ),
    ],
)
def test_files_that_github_does_not_tell_are_not_known_and_the_comment_is_made(
    desk: Desk, repository: Repository, answer: Answer, why: str
) -> None:
    desk.hub.fail("/files", answer, times=9)
    desk.uploads(document())
    (done,) = desk.comments(repository)
    assert done.act is Act.CREATED
    assert "## perfgate: gate \u2705 open" in desk.body
    assert (
        f"\n\n**Whether this pull request changes what judges it is not known:** {why}\n\n---\n"
        in desk.body
    )


def test_files_of_a_head_that_moved_meanwhile_are_not_told_of_this_commit(
    desk: Desk, repository: Repository
) -> None:
    desk.hub.fail(
        f"GET /pulls/{desk.number}$", Answer(200, {**desk.hub.pulls[desk.number], "head": MOVED})
    )
    desk.uploads(document())
    desk.comments(repository)
    assert (
        "**Whether this pull request changes what judges it is not known:** its head has moved on.\n"
        in desk.body
    )


MOVED = {"label": "octo:faster", "ref": "faster", "sha": OTHER, "repo": {"full_name": "octo/loops"}}


def test_a_comment_that_names_what_judges_already_is_not_touched(
    desk: Desk, repository: Repository
) -> None:
    desk.hub.change(desk.number, "baselines/b.json")
    desk.hub.change(desk.number, "baselines/a.json")
    desk.uploads(document())
    desk.comments(repository)
    desk.hub.changed[desk.number].reverse()
    changes = len(desk.hub.changes)
    (done,) = desk.comments(repository)
    assert (done.act, len(desk.hub.changes)) == (Act.UNCHANGED, changes)
    desk.hub.change(desk.number, "conftest.py")
    (done,) = desk.comments(repository)
    assert done.act is Act.EDITED


def test_names_of_files_can_only_be_text(desk: Desk, repository: Repository) -> None:
    desk.hub.change(desk.number, "baselines/`|`\n::error::\u202e@eve\r<b>.json")
    desk.uploads(document())
    desk.comments(repository)
    assert (
        "baselines (1 file): `baselines/'\u2758'\\n::error::\\u202e@eve\\r<b>.json`.\n\n---\n"
        in desk.body
    )


@given(st.lists(st.text(max_size=300), max_size=12))
def test_any_name_of_a_file_is_only_text(names: list[str]) -> None:
    is_inert(
        told(
            document(), judges(*(f"{part}/{text}" for text in [*HOSTILE, *names] for part in Part))
        )
    )


def test_long_names_of_files_still_fit_a_comment_that_is_full() -> None:
    long = "\U0001f600[x](y)@z " * 100
    verdicts = [
        records.verdict(Outcome.REGRESSED, name=f"{n}{long}", reason=long) for n in range(300)
    ]
    whole = document(*verdicts, opens=False, shut_by=(long,) * 900, remarks=(long,) * 900)
    body = told(whole, judges(*(f"baselines/{n}{long * 40}" for n in range(MOST_CHANGED_FILES))))
    is_inert(body)
    assert "baselines (3000 files): " in body
    assert (
        " and 2990 more. Whether it changes more of it is not known: GitHub lists only 3000 of its files.\n"
        in body
    )


# The mark


@given(st.integers(1, 10**18), st.integers(1, 10**8), st.sampled_from(Left))
def test_a_mark_is_read_as_it_was_written(run: int, attempt: int, left: Left) -> None:
    made = Mark(run=run, attempt=attempt, commit=SHA, left=left)
    assert Mark.read(f"{made.text}\nmore") == made


# The command


def test_the_command_says_what_it_did(desk: Desk) -> None:
    desk.uploads(document())
    env = desk.hub.env_of("workflow_run", event(), desk.folder)
    done = CliRunner().invoke(cli, ["github", "comment"], env=env, catch_exceptions=False)
    made = desk.hub.comments[desk.number][0]["id"]
    assert (done.exit_code, done.output) == (
        0,
        f"pull request {desk.number}: commented: https://github.example/octo/loops/pull/{desk.number}#issuecomment-{made}\n",
    )


def test_the_command_says_that_there_is_nothing_to_do(desk: Desk) -> None:
    env = desk.hub.env_of("workflow_run", event(branch="main"), desk.folder)
    done = CliRunner().invoke(cli, ["github", "comment"], env=env, catch_exceptions=False)
    assert (done.exit_code, done.output) == (
        0,
        "There is nothing to comment on: the run was skipped, or its commit is the head of no open pull request.\n",
    )


def test_another_artifact_and_another_author_may_be_named(desk: Desk) -> None:
    desk.hub.comment(desk.number, mark(run=1), author="bench-bot")
    desk.hub.artifact(RUN, "gate", {"perfgate.json": document_text(document())})
    env = desk.hub.env_of("workflow_run", event(), desk.folder)
    words = ["github", "comment", "--artifact", "gate", "--author", "bench-bot"]
    done = CliRunner().invoke(cli, words, env=env, catch_exceptions=False)
    assert (done.exit_code, "edited the comment" in done.output) == (0, True)
