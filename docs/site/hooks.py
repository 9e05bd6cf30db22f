"""For mkdocs: links from the pages to other files of the checkout lead to the repository, PTX is coloured, and options are not broken."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Any

_CODE = re.compile("(?<!<pre>)<code>[^<]*</code>")
_SHORT = re.compile("(?<!<pre>)<code>([^<]{1,20})</code>")
_PTX = re.compile(r"^(\s*```)ptx\b", re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()(\.\.?/[^)#\s]*)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """A relative link that leaves docs/ becomes one to the file in the repository; ptxkit's lexer colours PTX, not that of Pygments."""

    def target(link: re.Match[str]) -> str:
        path = normpath(str(PurePosixPath("docs", page.file.src_uri).parent / link[1]))
        return link[1] if path.startswith("docs/") or path == "docs" else f"{config.repo_url}/blob/main/{path}"

    return _PTX.sub(r"\1ptxkit", _LINK.sub(target, markdown))


def on_page_content(html: str, *, page: Any, config: Any, files: Any) -> str:
    """Code within text: a bar of a table's cell is no longer escaped, and short code is marked, so that no line ends in it."""
    html = _CODE.sub(lambda code: code[0].replace("\\|", "|"), html)
    return _SHORT.sub(r'<code class="whole">\1</code>', html)
