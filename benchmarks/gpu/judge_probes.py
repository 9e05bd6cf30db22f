"""Makes figures of what `launcher.py` recorded of instrumented kernels: outputs, and numbers compared.

    python benchmarks/gpu/judge_probes.py RECORD.json.gz

Exit status 1 if an output or a number is not as it must be.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import lzma
import sys
from collections import Counter
from pathlib import Path

from instrumented import Judge, subjects


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    with gzip.open(options.record, "rt", encoding="utf-8") as lines:
        record = json.load(lines)
    print(record["machine"], f"{record['seconds']} s")
    known = {(fixture.name, fixture.target): fixture for fixture in subjects(options.only)}
    judge = Judge()
    verdicts: Counter[tuple[str, str]] = Counter()
    bad = 0
    for result in record["results"]:
        fixture = known.get((result["fixture"], result["target"]))
        if fixture is None:
            continue
        verdicts[result["variant"], result["verdict"]] += 1
        if result["verdict"] != "equal":
            bad += 1
            print(result["fixture"], result["target"], result["launch"], result["variant"], result["verdict"], result["detail"][:300])
        if "buffer" not in result or result["verdict"] not in ("equal", "different"):
            continue
        kernel = next(kernel for kernel in fixture.kernels if kernel["id"] == result["launch"])
        data = lzma.decompress(base64.b64decode(result["buffer"]))
        judge.result(fixture, kernel, result["about"]["set"], data, result["arguments"], result["about"]["text"])
    kernels = {(r["fixture"], r["kernel"]) for r in record["results"]}
    print(f"{len(kernels)} kernels, {len({(r['fixture'], r['target']) for r in record['results']})} modules")
    for (variant, verdict), count in sorted(verdicts.items()):
        print(f"  {variant:12} {verdict:12} {count:6}")
    for what, count in sorted(judge.checks.items()):
        print(f"  {count:8}  {what}")
    print(f"{len(judge.wrong)} numbers are not as they must be")
    for line in judge.wrong[:200]:
        print("  ", line[:400])
    sys.exit(bool(bad or judge.wrong))


if __name__ == "__main__":
    main()
