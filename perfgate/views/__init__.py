"""What a person wants to see next to a verdict, gathered: explain, history, page, ncu."""
