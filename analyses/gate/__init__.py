"""One verdict on a module, of all that there is to say about it."""
