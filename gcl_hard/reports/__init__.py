"""Reports: tables, pages and figures of finished runs and searches."""
