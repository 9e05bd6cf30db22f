"""P005 tensormap-proxy."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.specimen import is_specimen
from ptxkit.analyses.framework.reporting import found_reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.proxy.tensor_maps import stale_maps
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Uses of tensor maps that the kernel has modified, with no acquire fence between."""
    for routine in facts.routines:
        if is_specimen(routine):
            continue
        yield from found_reports(facts, RULE, routine, stale_maps(routine))


RULE = Rule(
    id="P005",
    name="tensormap-proxy",
    severity=Severity.ERROR,
    summary="a tensor map that is changed and then used with no acquiring fence of the tensormap proxy between",
    why=(
        "Tensor maps are read through a separate proxy: a change must be released, and acquired before the map is used (9.7.14.4, "
        "9.7.14.16)."
    ),
    bad="""
        .shared .align 128 .b8 map[128];
        .shared .align 128 .b8 tile[1024];
        .shared .align 8 .b64 bar;
        tensormap.replace.tile.global_address.shared::cta.b1024.b64 [map], %rd2;
        tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [map], 128;
        cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes [tile], [%rd1, {%r1}], [bar];
    """,
    good="""
        .shared .align 128 .b8 map[128];
        .shared .align 128 .b8 tile[1024];
        .shared .align 8 .b64 bar;
        tensormap.replace.tile.global_address.shared::cta.b1024.b64 [map], %rd2;
        tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [map], 128;
        fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;
        cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes [tile], [%rd1, {%r1}], [bar];
    """,
    proof=(
        "Data flow on all paths from the change to the use: one has no acquiring fence of the proxy. A map that is not acquired, "
        "or not released, although the other maps of the kernel are, is a warning."
    ),
    sanitizer="none of its tools looks for this.",
    check=check,
)
