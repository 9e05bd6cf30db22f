"""Number formats and arithmetic that NumPy lacks. All functions take and return arrays, or NumPy scalars."""
