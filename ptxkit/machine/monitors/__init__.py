"""What watches a launch: each module a monitor, with what it finds (`findings`)."""
