"""What holds for all tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# how long an example takes says how busy the machine is, not whether the property holds
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

sys.path.insert(0, str(Path(__file__).parent))  # for `replaying`, `sampling` and `work`


@pytest.fixture(autouse=True)
def _witnesses(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every finding of a launch under monitors has a witness that the execution bears out (`replaying.py`)."""
    machine = sys.modules.get("ptxkit.machine")
    if machine is None or "unwitnessed" in request.keywords:
        return
    from replaying import Log, held

    launch = machine.launch

    def witnessed(*arguments: Any) -> Any:
        *rest, monitors, progress, cooperative = arguments
        if not monitors:
            return launch(*arguments)
        log, fault = Log(), None
        findings: tuple[Any, ...] = ()
        try:
            run = launch(*rest, (*monitors, log), progress, cooperative)
            findings = run.findings
            return run
        except machine.Fault as error:
            fault, findings = error, error.findings
            raise
        finally:
            for finding in findings:
                held(finding, log, fault)

    monkeypatch.setattr(machine, "launch", witnessed)
