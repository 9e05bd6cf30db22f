"""Machine integers: modular arithmetic, known bits and ranges, and sets of small numbers as bit masks."""
