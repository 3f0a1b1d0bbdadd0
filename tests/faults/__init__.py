"""What goes wrong around commands: odd flags and numbers, files that change, failing machines.

They are marked ``faults``: ``make test-faults`` runs all of them, CI a tenth drawn by the commit.
"""
