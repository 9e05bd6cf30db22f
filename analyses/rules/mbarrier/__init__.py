"""mbarriers."""

WORDS = ("mbarrier",)
