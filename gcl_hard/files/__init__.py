"""Files: atomic writes, stored types, data folders, downloads."""
