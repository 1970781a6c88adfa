"""Every rule, in the order in which findings are told within a severity."""

from __future__ import annotations

from autotune.verl_config.rules.combinations import COMBINATION_RULES
from autotune.verl_config.rules.defaults import DEFAULT_RULES
from autotune.verl_config.rules.effects import EFFECT_RULES
from autotune.verl_config.rules.keys import KEY_RULES
from autotune.verl_config.rules.learning import LEARNING_RULES
from autotune.verl_config.rules.memory import MEMORY_RULES
from autotune.verl_config.rules.rule import Finding, Rule, Setting, Severity
from autotune.verl_config.rules.running import RUNNING_RULES

RULES: tuple[Rule, ...] = (
    *KEY_RULES,
    *COMBINATION_RULES,
    *EFFECT_RULES,
    *LEARNING_RULES,
    *MEMORY_RULES,
    *RUNNING_RULES,
    *DEFAULT_RULES,
)

_ORDER = tuple(Severity)


def findings(setting: Setting) -> list[Finding]:
    """Everything the rules find, the worst first."""
    found = [finding for rule in RULES for finding in rule.findings(setting)]
    return sorted(found, key=lambda finding: _ORDER.index(finding.severity))
