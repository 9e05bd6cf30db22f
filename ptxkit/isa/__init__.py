"""The PTX instruction set as data: which forms an instruction has, what they need, read, write and do."""
