"""Array algorithms, by idea and not by operator: compiled loops over NumPy columns."""
