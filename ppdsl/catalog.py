"""Every code that ppdsl reports, with its rule, gathered from the modules that report them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from ppdsl import forms, launch_files, parsing, sizes, validation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ppdsl.diagnostics import Rule


@cache
def all_rules() -> Mapping[str, Rule]:
    """Give each code's rule, in the order of the codes."""
    found = (*parsing.RULES, *validation.RULES, *sizes.RULES, *forms.RULES, *launch_files.RULES)
    return {rule.code: rule for rule in sorted(found, key=lambda rule: rule.code)}
