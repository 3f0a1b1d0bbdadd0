"""Reports: results as rows and frames, tables in every format, pages from templates."""
