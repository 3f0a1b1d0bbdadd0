"""A short run on scikit-learn's digits."""

from gcl_hard import bench

SHORT = ["--seeds=1", "--epochs=1", "--batch-size=128", "--device=cpu", "--output=out"]
DIGITS = ["--dataset=digits", "--method=hscl,pixels", "--encoder=fast"]
assert bench.main([*DIGITS, *SHORT]) == 0
