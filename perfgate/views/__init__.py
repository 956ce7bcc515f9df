"""What a person wants to see beside a verdict, gathered: explain, history, page, ncu."""
