"""Asking a real compiler whether it takes a module: the CUDA driver, nvJitLink or ptxas, whichever is there.

Nothing is imported or loaded before `revalidate` is called, and then, unless told otherwise, only in a child process.
"""

from ptxkit.revalidation.chain import revalidate
from ptxkit.revalidation.verdict import Outcome, Resources, Skipped, Verdict

__all__ = ["Outcome", "Resources", "Skipped", "Verdict", "revalidate"]
