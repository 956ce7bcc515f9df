"""The one room that knows Nsight Compute: find it, build its commands, read what it says and
measures."""
