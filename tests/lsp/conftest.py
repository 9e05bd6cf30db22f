"""Nothing here works without the library that speaks the protocol."""

import pytest

pytest.importorskip("pygls")
