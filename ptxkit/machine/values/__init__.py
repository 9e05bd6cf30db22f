"""Number formats and arithmetic that NumPy lacks: arrays in, arrays out; each works for NumPy scalars too."""
