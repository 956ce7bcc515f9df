"""perfgate makes a GPU workload's speed a test that can fail. What a workload author imports is
here, and is light."""

from perfgate.workload import Steps, workload

__all__ = ["Steps", "__version__", "workload"]
__version__ = "0.1.0"
