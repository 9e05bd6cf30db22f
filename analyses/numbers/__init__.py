"""Machine integers: arithmetic modulo two to a width, known bits and ranges, sets of small numbers as bits."""
