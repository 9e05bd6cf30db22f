"""PTX inside of binary files: ELF and PE files, static archives, fat binaries. No tool of NVIDIA is needed.

`contents(data)` gives the texts that a file holds; `text(entry)` decompresses one.
"""

from ptxkit.binaries.compression import Missing
from ptxkit.binaries.containers import Contents, Member, contents, is_binary
from ptxkit.binaries.fatbin import Entry, text
from ptxkit.binaries.reading import Damaged

__all__ = ["Contents", "Damaged", "Entry", "Member", "Missing", "contents", "is_binary", "text"]
