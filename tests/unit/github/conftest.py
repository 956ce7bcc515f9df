"""What the tests of perfgate's part for GitHub share: a GitHub on this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from github.Repository import Repository
from support.promotion import HASTY
from support.rest import GitHub

from perfgate.github import api
from perfgate.github.context import Context


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHub]:
    """A GitHub with one repository, octo/loops, that is asked without the pauses that it wants."""
    monkeypatch.setattr(api, "PATIENCE", HASTY)
    with GitHub() as hub:
        yield hub


@pytest.fixture
def repository(hub: GitHub) -> Repository:
    """That repository, as a job of it sees it."""
    return api.connect(Context.from_env(hub.env()))
