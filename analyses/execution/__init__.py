"""A kernel executed for an example launch, with everything watched. The README says what it gives."""
