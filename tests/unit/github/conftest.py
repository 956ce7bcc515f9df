"""What the tests of perfgate's part for GitHub share: a GitHub on this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from github.Repository import Repository
from support.rest import GitHub

from perfgate.github import api


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHub]:
    """A GitHub with one repository, octo/loops, that is asked without the pauses that it wants."""
    monkeypatch.setattr(api, "RETRY", api.RETRY.new(backoff_factor=0, max_rate_limit_wait=2))
    monkeypatch.setattr(api, "BETWEEN_WRITES_S", 0)
    with GitHub() as hub:
        yield hub


@pytest.fixture
def repository(hub: GitHub) -> Repository:
    """That repository, as a job of it sees it."""
    return api.connect(hub.env())
