"""How large ensembles are where no size is asked for; known before PyTorch is loaded."""

USUAL = {"cpu": 8, "cuda": 256}
"""Models of an ensemble. Neither the clock nor free memory nor the number of processes decides, so
that the same command trains the same models together. On a CPU 16 train the most models an hour on
every set of benchmarks/results/population.csv, and 4 already 76 to 97 % of that on most; 8 leave
two processes with work for ten seeds of one configuration. On a GPU a step of many costs hardly
more than one of few, and 256 models of these sets fit in 16 GB."""
FOLD_BY_FOLD = 4
"""Runs of a group on a CPU whose every fold is an ensemble: they are saved when the last fold
ends, and 4 train within 10 % of the best."""
SHARE = {"cpu": 0.5, "cuda": 0.8}
"""Of a device's free memory that an ensemble may fill."""
