"""Profilers: a process becomes a capture, a capture a timeline. Nothing else knows one."""
