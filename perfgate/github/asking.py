"""What a request is for, and how long it is waited for; knows neither GitHub's API nor the network."""

from __future__ import annotations

from pydantic import Field

from perfgate.model.record import Record


class Ask(Record):
    """One thing wanted of GitHub, in words for its error."""

    act: str
    """As "the comments of pull request 7"."""
    needs: str
    """The permission, as a workflow writes it: "pull-requests: write"."""
    or_else: str = ""
    """What else may be in the way, said after the permission; begins with a space."""


class Patience(Record):
    """How long GitHub is waited for."""

    timeout_s: int = Field(default=20, ge=1)
    """For a connection, and for each part of an answer."""
    repeats: int = Field(default=4, ge=0)
    backoff_s: float = Field(default=1.0, ge=0)
    """Doubled with each repeat; the first is made at once."""
    longest_wait_s: float = Field(default=300.0, ge=0)
    """The longest rate limit that is waited for."""
    download_s: float = Field(default=300.0, gt=0)
    """The longest time that a whole file may take."""
    between_writes_s: float = Field(default=1.0, ge=0)
    """What GitHub asks for between changes."""
