"""The packages: every folder of the three with an `__init__.py`. All else stands in pyproject.toml.

analyses/ and rewriters/ stand beside ptxkit/ and are imported as parts of it; a table of pyproject.toml could not say that and find them.
"""

from __future__ import annotations

from setuptools import find_packages, setup

BESIDE = ("analyses", "rewriters")
LINKED = [f"ptxkit.{name}{more}" for name in BESIDE for more in ("", ".*")]
"""The links in ptxkit/ to the folders beside it, by which a checkout runs."""

setup(
    packages=[
        *find_packages(include=["ptxkit", "ptxkit.*"], exclude=LINKED),
        *(f"ptxkit.{name}" for name in find_packages(include=[*BESIDE, *(f"{name}.*" for name in BESIDE)])),
    ],
    package_dir={"ptxkit": "ptxkit", **{f"ptxkit.{name}": name for name in BESIDE}},
)
