"""What holds for all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# how long an example takes says how busy the machine is, not whether the property holds
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
