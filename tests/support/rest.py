"""A server on this machine that answers as GitHub's REST API does, to what perfgate asks of it.

Its state is plain Python; what was asked is noted. Failures are planted with `fail`.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import threading
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar, Self
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

TOKEN = "ghs_7fQ2mXv9Lr4Tz8Kp"
BOT = "github-actions[bot]"
NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
LONGEST_BODY = 65_536
MOST_CHANGED = 3000
"""Files of a pull request that are listed."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request, as it came."""

    verb: str
    path: str
    """Without the repository: `/pulls/7`; of the file server as it came."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """By their names in lower case."""
    body: object

    @property
    def line(self) -> str:
        return f"{self.verb} {self.path}"


@dataclass(frozen=True)
class Answer:
    status: int
    content: object = None
    """JSON; bytes as they are."""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Fault:
    """An answer in place of the true one, so many times."""

    line: str
    """A regular expression for `VERB /path`."""
    answer: Answer
    times: int
    after: bool
    """Whether the request is carried out all the same, and only its answer is lost."""


@dataclass(frozen=True, kw_only=True)
class Commit:
    files: Mapping[str, bytes]
    parents: tuple[str, ...]
    message: str


@dataclass(frozen=True, kw_only=True)
class Dispatch:
    workflow: str
    ref: str
    inputs: Mapping[str, str]


def zipped(members: Mapping[str, bytes | str]) -> bytes:
    """A zip file as upload-artifact makes it, the same bytes whenever it is made: tests are named
    by them."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, compress_type=zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def not_found() -> Answer:
    says = {"message": "Not Found", "status": "404"}
    return Answer(404, {**says, "documentation_url": "https://docs.github.com/rest"})


def invalid(message: str, *errors: object) -> Answer:
    says: dict[str, object] = {
        "message": message,
        "documentation_url": "https://docs.github.com/rest",
    }
    return Answer(422, {**says, "errors": list(errors)} if errors else says)


def primary_limit(seconds: int) -> Answer:
    """The hour's requests are used up; there will be new ones in so many seconds."""
    reset = {
        "X-RateLimit-Limit": "1000",
        "X-RateLimit-Remaining": "0",
        "X-RateLimit-Reset": str(int(time.time()) + seconds),
    }
    return Answer(403, {"message": "API rate limit exceeded for installation ID 12345."}, reset)


def secondary_limit(*, retry_after: int | None, status: int = 403) -> Answer:
    """Too many at once."""
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    message = (
        "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
    )
    return Answer(status, {"message": message}, headers)


NOT_ACCESSIBLE = Answer(403, {"message": "Resource not accessible by integration", "status": "403"})


def finished_run(
    url: str = "",
    *,
    run: int = 700,
    attempt: int = 1,
    sha: str = "a" * 40,
    branch: str | None = "faster",
    head: str | None = "octo/loops",
    conclusion: str = "success",
    workflow: str = "perfgate.yml",
) -> dict[str, object]:
    """The event of a finished run, as far as it matters, its artifacts being at `url`."""
    owner = {"login": "" if head is None else head.partition("/")[0]}
    return {
        "action": "completed",
        "workflow_run": {
            "id": run,
            "run_attempt": attempt,
            "run_started_at": "2026-03-02T11:00:00Z",
            "html_url": f"https://github.example/octo/loops/actions/runs/{run}",
            "path": f".github/workflows/{workflow}",
            "artifacts_url": url,
            "conclusion": conclusion,
            "head_sha": sha,
            "head_branch": branch,
            "head_repository": None if head is None else {"full_name": head, "owner": owner},
        },
    }


class GitHub(AbstractContextManager["GitHub"]):
    """One repository on a GitHub of its own: `with GitHub() as hub: ...`."""

    def __init__(self) -> None:
        self.repository = "octo/loops"
        self.default_branch = "main"
        self.asked: list[Asked] = []
        self.fetched: list[Asked] = []
        """What the server of the artifacts' files was asked."""
        self.may_open_pull_requests = True
        """The repository's setting "Allow GitHub Actions to create and approve pull requests"."""
        self.permissions: dict[str, str] = {}
        """Of users: `admin`, `write`, `read`, `none`; of others there is none such."""
        self.pulls: dict[int, dict[str, object]] = {}
        self.comments: dict[int, list[dict[str, object]]] = {}
        """By pull request."""
        self.changed: dict[int, list[dict[str, object]]] = {}
        """Files by pull request."""
        self.runs: list[dict[str, object]] = []
        self.artifacts: dict[int, list[dict[str, object]]] = {}
        """By run."""
        self.files: dict[int, bytes] = {}
        """Zip files by artifact."""
        self.workflows: set[str] = set()
        """Files that have `workflow_dispatch`."""
        self.dispatched: list[Dispatch] = []
        self.trees: dict[str, Mapping[str, bytes]] = {}
        """Files by path."""
        self.commits: dict[str, Commit] = {}
        self.branches: dict[str, str] = {}
        self.base = "b" * 40
        """The commit that pull requests are for; of an empty tree."""
        self.commits[self.base] = Commit(files={}, parents=(), message="the base")
        self._faults: list[Fault] = []
        self._number = 0
        self._lock = threading.RLock()
        self._api = _Server(self._serve)

    def __enter__(self) -> Self:
        self._api.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._api.stop()

    # What a test plants and looks at

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self._api.port}/api/v3"

    def env(self, **more: str) -> dict[str, str]:
        """The environment of a job of this repository."""
        return {
            "GITHUB_REPOSITORY": self.repository,
            "GITHUB_API_URL": self.api_url,
            "GITHUB_SERVER_URL": "https://github.example",
            "GITHUB_TOKEN": TOKEN,
            "GITHUB_RUN_ID": "9001",
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_ACTOR": "ada",
            "GITHUB_REF": "refs/heads/main",
            "GITHUB_SHA": "1" * 40,
            **more,
        }

    def env_of(
        self, event_name: str, event: Mapping[str, object], folder: Path, **more: str
    ) -> dict[str, str]:
        """The environment of a job that an event started; the event's file is written."""
        file = folder / "event.json"
        file.write_text(json.dumps(event), encoding="utf-8")
        return self.env(GITHUB_EVENT_NAME=event_name, GITHUB_EVENT_PATH=str(file), **more)

    def fail(
        self,
        line: str,
        answer: Answer,
        *,
        times: int = 1,
        after: bool = False,
    ) -> None:
        """Answer otherwise, so many times, to what a regular expression finds in `VERB /path`."""
        self._faults.append(Fault(line, answer, times, after))

    @property
    def lines(self) -> list[str]:
        """What was asked, in short."""
        return [asked.line for asked in self.asked]

    @property
    def changes(self) -> list[str]:
        """What was asked that is not only reading."""
        return [asked.line for asked in self.asked if asked.verb != "GET"]

    def pull(
        self,
        *,
        branch: str = "faster",
        sha: str = "a" * 40,
        head: str | None = None,
        base: str = "main",
        state: str = "open",
        author: str | None = "eve",
        title: str = "Faster",
        fork_gone: bool = False,
        labels: Sequence[str] = (),
    ) -> int:
        """Add a pull request, from this repository or another `head`, and return its number."""
        number = self._next()
        whose = head or self.repository
        self.pulls[number] = {
            "id": 10_000 + number,
            "url": self.url(f"/pulls/{number}"),
            "issue_url": self.url(f"/issues/{number}"),
            "number": number,
            "state": state,
            "title": title,
            "body": "",
            "html_url": f"https://github.example/{self.repository}/pull/{number}",
            "user": None if author is None else _user(author),
            "labels": [{"name": label} for label in labels],
            "head": {
                "label": f"{whose.partition('/')[0]}:{branch}",
                "ref": branch,
                "sha": sha,
                "repo": None if fork_gone else {"id": 1, "full_name": whose},
            },
            "base": {
                "label": f"{self.repository.partition('/')[0]}:{base}",
                "ref": base,
                "sha": self.base,
                "repo": {"id": 2, "full_name": self.repository},
            },
        }
        self.comments[number] = []
        self.changed[number] = []
        return number

    def change(
        self, number: int, path: str, *, status: str = "modified", previous: str | None = None
    ) -> None:
        """Add a file to those that a pull request changes."""
        row: dict[str, object] = {
            "sha": "c" * 40,
            "filename": path,
            "status": status,
            "changes": 1,
            "patch": "@@",
        }
        self.changed[number].append(
            row if previous is None else {**row, "previous_filename": previous}
        )

    def comment(self, number: int, body: str, *, author: str | None = BOT) -> int:
        """Add a comment to a pull request and return its id."""
        made = self._next()
        page = f"https://github.example/{self.repository}/pull/{number}"
        self.comments[number].append(
            {
                "id": made,
                "url": self.url(f"/issues/comments/{made}"),
                "user": None if author is None else _user(author),
                "body": body,
                "html_url": f"{page}#issuecomment-{made}",
                "created_at": _time(NOON + timedelta(seconds=made)),
            }
        )
        return made

    def run(
        self,
        *,
        head_sha: str = "a" * 40,
        head_branch: str | None = "faster",
        workflow: str = "perfgate.yml",
        run_id: int | None = None,
        attempt: int = 1,
        event: str = "pull_request",
        status: str = "completed",
        conclusion: str | None = "success",
        created_at: datetime = NOON,
        fork: str | None = None,
    ) -> int:
        """Add a run of a workflow and return its id; `fork`: of which its branch is, as
        `owner/name`."""
        made = self._next() if run_id is None else run_id
        self.runs.append(
            {
                "id": made,
                "url": self.url(f"/actions/runs/{made}"),
                "artifacts_url": self.url(f"/actions/runs/{made}/artifacts"),
                "run_attempt": attempt,
                "path": f".github/workflows/{workflow}",
                "event": event,
                "status": status,
                "conclusion": conclusion,
                "head_sha": head_sha,
                "head_branch": head_branch,
                "head_repository": {"full_name": fork or self.repository},
                "created_at": _time(created_at),
                "html_url": f"https://github.example/{self.repository}/actions/runs/{made}",
                "pull_requests": [],
            }
        )
        self.artifacts.setdefault(made, [])
        return made

    def artifact(
        self,
        run_id: int,
        name: str,
        content: bytes | Mapping[str, bytes | str],
        *,
        created_at: datetime = NOON,
    ) -> int:
        """Add an artifact to a run, as bytes or as what is to be zipped; return its id."""
        made = self._next()
        packed = content if isinstance(content, bytes) else zipped(content)
        self.files[made] = packed
        self.artifacts.setdefault(run_id, []).append(
            {
                "id": made,
                "name": name,
                "size_in_bytes": len(packed),
                "expired": False,
                "archive_download_url": self.url(f"/actions/artifacts/{made}/zip"),
                "created_at": _time(created_at),
            }
        )
        return made

    def commit(
        self,
        files: Mapping[str, bytes | str],
        *,
        branch: str,
        message: str = "a commit",
        sha: str | None = None,
    ) -> str:
        """Add a commit to a branch, as a push does; return its SHA, which may be given."""
        parent = self.branches.get(branch)
        before = {} if parent is None else self.commits[parent].files
        given = {path: one.encode() if isinstance(one, str) else one for path, one in files.items()}
        parents = () if parent is None else (parent,)
        made = self._commit(
            Commit(files={**before, **given}, parents=parents, message=message), sha
        )
        self.branches[branch] = made
        return made

    def _commit(self, commit: Commit, sha: str | None = None) -> str:
        made = sha or _sha(commit, len(self.commits))
        self.commits[made] = commit
        self.trees[made] = commit.files
        return made

    def content(self, branch: str) -> dict[str, bytes]:
        """The files of a branch."""
        return dict(self.commits[self.branches[branch]].files)

    def url(self, path: str) -> str:
        return f"{self.api_url}/repos/{self.repository}{path}"

    def _next(self) -> int:
        self._number += 1
        return self._number

    # The API

    ROUTES: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("GET", r"/pulls", "_list_pulls"),
        ("POST", r"/pulls", "_open_pull"),
        ("GET", r"/pulls/(\d+)", "_get_pull"),
        ("PATCH", r"/pulls/(\d+)", "_edit_pull"),
        ("GET", r"/pulls/(\d+)/files", "_list_changed"),
        ("DELETE", r"/issues/(\d+)/labels/([^/]+)", "_remove_label"),
        ("GET", r"/issues/(\d+)/comments", "_list_comments"),
        ("POST", r"/issues/(\d+)/comments", "_create_comment"),
        ("PATCH", r"/issues/comments/(\d+)", "_edit_comment"),
        ("GET", r"/collaborators/([^/]+)/permission", "_permission"),
        ("GET", r"/actions/runs", "_list_runs"),
        ("GET", r"/actions/runs/(\d+)", "_get_run"),
        ("POST", r"/actions/workflows/([^/]+)/dispatches", "_dispatch"),
        ("GET", r"/actions/runs/(\d+)/artifacts", "_list_artifacts"),
        ("GET", r"/actions/artifacts/(\d+)/zip", "_redirect"),
        ("GET", r"/git/ref/heads/(.+)", "_get_ref"),
        ("GET", r"/git/commits/([0-9a-f]+)", "_get_commit"),
        ("GET", r"/contents/(.+)", "_get_content"),
        ("POST", r"/git/trees", "_create_tree"),
        ("POST", r"/git/commits", "_create_commit"),
        ("POST", r"/git/refs", "_create_ref"),
        ("PATCH", r"/git/refs/heads/(.+)", "_update_ref"),
    )

    def _serve(self, verb: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        parts = urlsplit(target)
        if parts.path.endswith(".zip"):
            return self._serve_file(verb, parts.path, headers)
        root = f"/api/v3/repos/{self.repository}"
        whole = unquote(parts.path)
        path = whole.removeprefix(root)
        content = json.loads(body) if body else None
        asked = Asked(
            verb=verb, path=path, query=_query(parts.query), headers=headers, body=content
        )
        fault = self._noted(asked, self.asked)
        if fault is not None and fault.after:
            with self._lock:
                self._answer(asked)
        if fault is not None:
            return fault.answer
        with self._lock:
            try:
                return self._answer(asked)
            except KeyError:
                return not_found()
            except AssertionError as odd:
                return invalid(f"GitHub does not take this: {odd!r}")

    def _noted(self, asked: Asked, all_asked: list[Asked]) -> Fault | None:
        """Note what is asked, and take the fault that is planted for it."""
        with self._lock:
            all_asked.append(asked)
            for fault in self._faults:
                if fault.times > 0 and re.search(fault.line, asked.line):
                    fault.times -= 1
                    return fault
        return None

    def _answer(self, asked: Asked) -> Answer:
        if asked.headers.get("authorization", "").split(" ")[1:] != [TOKEN]:
            return Answer(401, {"message": "Bad credentials", "status": "401"})
        for verb, pattern, name in self.ROUTES:
            if asked.verb == verb and (found := re.fullmatch(pattern, asked.path)):
                serve: Callable[..., Answer] = getattr(self, name)
                return serve(asked, *found.groups())
        return not_found()

    def _page(
        self, asked: Asked, rows: list[dict[str, object]], *, within: str | None = None
    ) -> Answer:
        size = min(int(asked.query.get("per_page", "30")), 100)
        number = int(asked.query.get("page", "1"))
        last = max(-(-len(rows) // size), 1)

        def link(page: int, rel: str) -> str:
            query = urlencode({**asked.query, "page": page})
            return f'<{self.api_url}/repos/{self.repository}{asked.path}?{query}>; rel="{rel}"'

        links = [link(number + 1, "next"), link(last, "last")] if number < last else []
        links += [link(number - 1, "prev"), link(1, "first")] if number > 1 else []
        shown = rows[(number - 1) * size : number * size]
        content: object = shown if within is None else {"total_count": len(rows), within: shown}
        return Answer(200, content, {"Link": ", ".join(links)} if links else {})

    def _list_pulls(self, asked: Asked) -> Answer:
        state, head = asked.query.get("state", "open"), asked.query.get("head", "")
        rows = [pull for pull in self.pulls.values() if state in ("all", pull["state"])]
        if ":" in head:
            rows = [pull for pull in rows if _part(pull, "head")["label"] == head]
        return self._page(asked, rows[::-1])

    def _open_pull(self, asked: Asked) -> Answer:
        if not self.may_open_pull_requests:
            return Answer(
                403,
                {"message": "GitHub Actions is not permitted to create or approve pull requests."},
            )
        sent = _sent(asked)
        head = str(sent["head"])
        number = self.pull(
            branch=head,
            sha=self.branches[head],
            base=str(sent["base"]),
            author=BOT,
            title=str(sent["title"]),
        )
        self.pulls[number]["body"] = sent["body"]
        return Answer(201, self.pulls[number])

    def _get_pull(self, asked: Asked, number: str) -> Answer:
        return Answer(200, self.pulls[int(number)])

    def _edit_pull(self, asked: Asked, number: str) -> Answer:
        self.pulls[int(number)] |= _sent(asked)
        return Answer(200, self.pulls[int(number)])

    def _list_changed(self, asked: Asked, number: str) -> Answer:
        return self._page(asked, self.changed[int(number)][:MOST_CHANGED])

    def _remove_label(self, asked: Asked, number: str, label: str) -> Answer:
        pull = self.pulls[int(number)]
        held = pull["labels"]
        assert isinstance(held, list)
        pull["labels"] = [one for one in held if one["name"] != label]
        return Answer(200, pull["labels"])

    def _list_comments(self, asked: Asked, number: str) -> Answer:
        return self._page(asked, self.comments[int(number)])

    def _create_comment(self, asked: Asked, number: str) -> Answer:
        self.comment(int(number), _body(asked))
        return Answer(201, self.comments[int(number)][-1])

    def _edit_comment(self, asked: Asked, comment: str) -> Answer:
        (found,) = (
            one for rows in self.comments.values() for one in rows if one["id"] == int(comment)
        )
        found["body"] = _body(asked)
        return Answer(200, found)

    def _permission(self, asked: Asked, user: str) -> Answer:
        may = self.permissions[user]
        return Answer(200, {"permission": may, "role_name": may, "user": _user(user)})

    def _list_runs(self, asked: Asked) -> Answer:
        sha = asked.query.get("head_sha")
        of = [run for run in self.runs if sha in (None, run["head_sha"])]
        newest = sorted(of, key=lambda run: str(run["created_at"]), reverse=True)
        return self._page(asked, newest, within="workflow_runs")

    def _get_run(self, asked: Asked, run: str) -> Answer:
        found = next((one for one in self.runs if one["id"] == int(run)), None)
        return not_found() if found is None else Answer(200, found)

    def _dispatch(self, asked: Asked, workflow: str) -> Answer:
        if workflow not in self.workflows:
            return not_found()
        sent = _sent(asked)
        assert sent["ref"] in self.branches
        inputs = sent.get("inputs")
        assert isinstance(inputs, dict)
        self.dispatched.append(Dispatch(workflow=workflow, ref=str(sent["ref"]), inputs=inputs))
        return Answer(204)

    def _list_artifacts(self, asked: Asked, run: str) -> Answer:
        return self._page(asked, self.artifacts[int(run)], within="artifacts")

    def _redirect(self, asked: Asked, artifact: str) -> Answer:
        assert int(artifact) in self.files
        file = f"http://localhost:{self._api.port}/{artifact}.zip?sig=secret"
        return Answer(302, None, {"Location": file})

    def _get_ref(self, asked: Asked, branch: str) -> Answer:
        return Answer(200, self._ref(branch))

    def _ref(self, branch: str) -> dict[str, object]:
        return {
            "ref": f"refs/heads/{branch}",
            "url": self.url(f"/git/refs/heads/{branch}"),
            "object": {"type": "commit", "sha": self.branches[branch]},
        }

    def _get_commit(self, asked: Asked, sha: str) -> Answer:
        commit = self.commits[sha]
        parents = [{"sha": parent} for parent in commit.parents]
        made = {"sha": sha, "message": commit.message, "tree": {"sha": sha}}
        return Answer(200, {**made, "parents": parents})

    def _get_content(self, asked: Asked, path: str) -> Answer:
        ref = asked.query["ref"]
        files = self.commits[self.branches.get(ref, ref)].files
        content = base64.encodebytes(files[path]).decode()
        return Answer(200, {"type": "file", "path": path, "encoding": "base64", "content": content})

    def _create_tree(self, asked: Asked) -> Answer:
        sent = _sent(asked)
        entries = sent["tree"]
        assert isinstance(entries, list)
        added = {entry["path"]: entry["content"].encode() for entry in entries}
        made = _sha(asked.body)
        self.trees[made] = {**self.trees[str(sent["base_tree"])], **added}
        return Answer(201, {"sha": made})

    def _create_commit(self, asked: Asked) -> Answer:
        sent = _sent(asked)
        parents, message = sent["parents"], str(sent["message"])
        assert isinstance(parents, list)
        assert self.commits.keys() >= set(parents)
        files = self.trees[str(sent["tree"])]
        made = self._commit(Commit(files=files, parents=tuple(parents), message=message))
        return Answer(201, {"sha": made, "message": message})

    def _create_ref(self, asked: Asked) -> Answer:
        sent = _sent(asked)
        branch, sha = str(sent["ref"]).removeprefix("refs/heads/"), str(sent["sha"])
        assert branch not in self.branches
        assert sha in self.commits
        self.branches[branch] = sha
        return Answer(201, self._ref(branch))

    def _update_ref(self, asked: Asked, branch: str) -> Answer:
        sent = _sent(asked)
        sha = str(sent["sha"])
        assert sha in self.commits
        if not sent.get("force") and not self._descends(sha, self.branches[branch]):
            return invalid("Update is not a fast forward")
        self.branches[branch] = sha
        for pull in self.pulls.values():
            if _part(pull, "head")["ref"] == branch and _part(pull, "head")["repo"] == {
                "id": 1,
                "full_name": self.repository,
            }:
                _part(pull, "head")["sha"] = sha
        return Answer(200, self._ref(branch))

    def _descends(self, sha: str, ancestor: str) -> bool:
        if sha == ancestor:
            return True
        return any(self._descends(parent, ancestor) for parent in self.commits[sha].parents)

    def _serve_file(self, verb: str, path: str, headers: Mapping[str, str]) -> Answer:
        """Answer as the server of the artifacts' files does."""
        asked = Asked(verb=verb, path=path, query={}, headers=headers, body=None)
        if (fault := self._noted(asked, self.fetched)) is not None:
            return fault.answer
        if "authorization" in headers:
            return Answer(400, b"<Error><Code>InvalidAuthenticationInfo</Code></Error>")
        content = self.files[int(Path(path).stem)]
        return Answer(200, content, {"Content-Type": "application/zip"})


def _query(text: str) -> Mapping[str, str]:
    return {name: values[-1] for name, values in parse_qs(text).items()}


def _user(login: str) -> dict[str, object]:
    return {"login": login, "id": 1, "type": "Bot" if login.endswith("[bot]") else "User"}


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _sha(*parts: object) -> str:
    return hashlib.sha1(repr(parts).encode(), usedforsecurity=False).hexdigest()


def _part(row: dict[str, object], name: str) -> dict[str, object]:
    found = row[name]
    assert isinstance(found, dict)
    return found


def _sent(asked: Asked) -> dict[str, object]:
    assert isinstance(asked.body, dict)
    return asked.body


def _body(asked: Asked) -> str:
    """The text of a comment, which GitHub takes only where there is one, up to a length."""
    body = _sent(asked)["body"]
    assert isinstance(body, str)
    assert 0 < len(body) <= LONGEST_BODY
    return body


class _Server:
    """One HTTP server in a thread."""

    def __init__(self, serve: Callable[[str, str, Mapping[str, str], bytes], Answer]) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            """Else the body waits 40 ms until the asker has acknowledged the headers."""

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                answer = serve(self.command, self.path, headers, body)
                content = (
                    answer.content
                    if isinstance(answer.content, bytes)
                    else b""
                    if answer.content is None
                    else json.dumps(answer.content).encode()
                )
                try:
                    self.send_response_only(answer.status)
                    shown = {
                        "Date": formatdate(usegmt=True),
                        "Content-Type": "application/json; charset=utf-8",
                        "Content-Length": str(len(content)),
                        **answer.headers,
                    }
                    for name, value in shown.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(content)
                except OSError:
                    self.close_connection = True  # whoever asked has given up

            do_GET = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815 - http.server's names

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Nothing is logged."""

        class Quiet(ThreadingHTTPServer):
            def handle_error(self, request: object, client_address: object) -> None:
                """Whoever asked has given up."""

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
