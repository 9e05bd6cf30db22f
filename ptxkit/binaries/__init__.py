"""PTX within binary files: ELF and PE files, static archives, fat binaries. No NVIDIA tool is needed.

`contents(data)` lists the texts in a file; `text(entry)` decompresses one.
"""

from ptxkit.binaries.compression import Missing
from ptxkit.binaries.containers import Contents, Member, contents, is_binary
from ptxkit.binaries.fatbin import Entry, text
from ptxkit.binaries.reading import Damaged

__all__ = ["Contents", "Damaged", "Entry", "Member", "Missing", "contents", "is_binary", "text"]
