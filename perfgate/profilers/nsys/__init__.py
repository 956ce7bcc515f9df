"""Nsight Systems: finds it, runs it and reads what it wrote; knows no metric or verdict."""
