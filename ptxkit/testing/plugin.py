"""The pytest plugin: `--ptxkit-on`, and the fixture `ptxkit_backend`. Importing it loads only pytest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ptxkit.testing.backends import Backend


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    group = parser.getgroup("ptxkit", "kernels (ptxkit)")
    group.addoption(
        "--ptxkit-on",
        choices=("auto", "machine", "gpu"),
        default="auto",
        help="Where kernels of the fixture ptxkit_backend run: auto (default) is a GPU if there is one, else the machine.",
    )
    group.addoption(
        "--ptxkit-target", metavar="TARGET", help="The GPU that the machine is, such as sm_90a; that of each module if left out."
    )
    group.addoption("--ptxkit-checks", default="all", metavar="all|races,…", help="The monitors of the machine (all), or none.")


def pytest_configure(config: pytest.Config) -> None:
    """The marker."""
    config.addinivalue_line("markers", "ptxkit_on(backend): only where kernels run on this backend, machine or gpu")


@pytest.fixture
def ptxkit_backend(request: pytest.FixtureRequest) -> Backend:
    """The backend selected by `--ptxkit-on`: a `ptxkit.testing.Backend`."""
    from ptxkit.testing.backends import backend

    said = str(request.config.getoption("--ptxkit-checks"))
    checks = () if said == "none" else tuple([word.strip() for word in said.split(",")])
    target = request.config.getoption("--ptxkit-target")
    found = backend(str(request.config.getoption("--ptxkit-on")), target, checks)
    marker = request.node.get_closest_marker("ptxkit_on")
    if marker is not None and found.on not in marker.args:
        pytest.skip(f"kernels run on the {found.on}")
    return found
