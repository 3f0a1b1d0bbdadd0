"""Lines of results for a reader: in a terminal, as files, as a page with figures."""
