"""PTX of Mojo kernels: texts in the libraries of a wheel, one for each kernel, by the hash of the text.

python mojo_wheel.py WHEEL FOLDER
"""

import hashlib
import re
import sys
import zipfile
from pathlib import Path

LIBRARIES = "_mojolearn_native_cluster.so", "_mojolearn_native_sequence.so", "_mojolearn_x_sequence.so"
LEAST, MOST, COUNT = 1500, 120_000, 24


def main():
    wheel, out = sys.argv[1:]
    texts = {}
    with zipfile.ZipFile(wheel) as packed:
        for name in sorted(packed.namelist()):
            if name.endswith(LIBRARIES):
                for found in re.finditer(rb"(?://[^\0]{0,400})?\.version \d\.\d[^\0]*", packed.read(name)):
                    kernel = re.search(rb"\.entry\s+([\w$]+)", found[0])
                    if kernel and LEAST <= len(found[0]) <= MOST:
                        texts.setdefault(kernel[1], found[0])
    for key, text in sorted((hashlib.sha256(text).hexdigest(), text) for text in texts.values())[:COUNT]:
        (Path(out) / f"kernel.{key[:10]}.sm_80.ptx").write_bytes(text)


if __name__ == "__main__":
    main()
