"""Keeps regressions.py out of a plain `pytest --perfgate`: it is collected where REGRESSION is set,
or where it is asked for.
"""

import os

collect_ignore = [] if os.environ.get("REGRESSION") else ["regressions.py"]
