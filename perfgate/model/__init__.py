"""The foundation: frozen records, closed choices and common words, which import nothing else of
perfgate."""
