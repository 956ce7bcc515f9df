"""`python -m perfgate`: the shell's door by the interpreter that has perfgate, as the composite
action opens it."""

from __future__ import annotations

from perfgate.cli import main

main()
