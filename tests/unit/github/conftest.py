"""What the tests of perfgate's part for GitHub share: a GitHub on this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.rest import GitHub

from perfgate.github.api import Repository
from perfgate.github.asking import Patience
from perfgate.github.context import Context

HASTY = Patience(
    timeout_s=5, repeats=2, backoff_s=0.0, longest_wait_s=2.0, download_s=5.0, between_writes_s=0.0
)
"""For a server that is at hand."""


@pytest.fixture
def hub() -> Iterator[GitHub]:
    """A GitHub with one repository, octo/loops."""
    with GitHub() as hub:
        yield hub


@pytest.fixture
def repository(hub: GitHub) -> Repository:
    """That repository, as a job of it sees it."""
    return Repository.connect(Context.from_env(hub.env()), patience=HASTY)
