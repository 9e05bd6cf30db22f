"""mbarriers."""
