"""What every room uses: extras, lazy imports, settings, seeds, ids, signals."""
