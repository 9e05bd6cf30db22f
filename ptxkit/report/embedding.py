"""Data and files embedded in HTML pages."""

from __future__ import annotations

import functools
import importlib.resources
import json
from typing import Any


def script_json(data: Any) -> str:
    """JSON that cannot close the script element around it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace").decode()
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@functools.cache
def resource(package: str, name: str) -> str:
    """The text of a file in a package."""
    return importlib.resources.files(package).joinpath(name).read_text(encoding="utf-8")
