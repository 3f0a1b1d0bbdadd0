"""The scripts here run by themselves, where nothing else can be imported."""

collect_ignore_glob = ["*.py"]
