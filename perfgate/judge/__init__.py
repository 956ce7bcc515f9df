"""The judge: blessed runs and fresh runs in, a verdict out; knows no file, no clock, no GPU and no
other room."""
