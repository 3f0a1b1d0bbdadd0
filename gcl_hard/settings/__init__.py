"""Settings of experiments: every setting that changes numbers, its flags and its presets."""
