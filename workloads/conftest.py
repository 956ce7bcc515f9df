"""Keeps slips.py out of a plain `pytest --perfgate`: it is collected where SLIP is set, or where it is asked for."""

import os

collect_ignore = [] if os.environ.get("SLIP") else ["slips.py"]
