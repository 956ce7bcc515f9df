"""The hall: what is expected, how each expected thing is checked, and what the whole amounts to.

The one path that both doors walk. It runs what it is handed and asks the judge; it prints nothing and finds nothing.
"""

from perfgate.gate.checking import check
from perfgate.gate.closing import close, step_down_clocks
from perfgate.gate.comparable import as_not_measured
from perfgate.gate.spending import forecast
from perfgate.gate.terms import (
    NO_DUET_BY,
    NOT_MEASURED_BY,
    Affords,
    Checked,
    Closing,
    Duel,
    Expectation,
    Forms,
    OpenDuel,
    Pair,
    Policy,
    Series,
)

__all__ = [
    "NOT_MEASURED_BY",
    "NO_DUET_BY",
    "Affords",
    "Checked",
    "Closing",
    "Duel",
    "Expectation",
    "Forms",
    "OpenDuel",
    "Pair",
    "Policy",
    "Series",
    "as_not_measured",
    "check",
    "close",
    "forecast",
    "step_down_clocks",
]
