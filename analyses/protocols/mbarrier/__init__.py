"""mbarriers: counts, phases, parities, expect-tx bytes, rings of stages."""
