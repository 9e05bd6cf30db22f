"""Instructions that all similar pieces of code have but one."""
