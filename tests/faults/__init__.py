"""What commands meet: flags and numbers that nobody meant, files that change, machines that refuse.

They are marked ``faults``: ``make test-faults`` runs all of them, CI a tenth drawn by the commit.
"""
