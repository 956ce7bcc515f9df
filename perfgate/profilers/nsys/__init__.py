"""The room of Nsight Systems: finds the tool, runs it and reads what it wrote; knows no metric, verdict or door."""
