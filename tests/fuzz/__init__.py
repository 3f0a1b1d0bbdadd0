"""Random faults: commands, files and archives that are damaged or were never meant."""
