"""The foundation: frozen records and closed choices, which import nothing else of perfgate."""
