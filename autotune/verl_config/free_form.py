"""The sections of verl's configuration that take any key: what they hold is handed on to other code."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.records import Value

FREE_FORM_SECTIONS: frozenset[str] = frozenset(
    {
        "apply_chat_template_kwargs",
        "engine_kwargs",
        "env_vars",
        "extra_body",
        "fused_kernel_options",
        "kw_args",
        "mixed_precision",
        "mm_processor_kwargs",
        "override_config",
        "override_ddp_config",
        "override_mcore_model_config",
        "override_optimizer_config",
        "override_transformer_config",
        "ray_init",
        "reward_kwargs",
        "runtime_env",
        "sampler_kwargs",
    }
)
"""Last names of sections whose keys verl passes on unread."""


def is_free_form(key: str, default_flat: Mapping[str, Value]) -> bool:
    """True where `key` is, or lies below, a free-form section or a section that verl leaves empty."""
    parts = key.split(".")
    if FREE_FORM_SECTIONS.intersection(parts[1:]):
        return True
    parents = (".".join(parts[:end]) for end in range(1, len(parts)))
    return any(default_flat.get(parent) == {} for parent in parents)


def needs_plus(key: str) -> bool:
    """True where Hydra's command line needs `++` before `key`, judged by the section's name alone."""
    return bool(FREE_FORM_SECTIONS.intersection(key.lstrip("+").split(".")[1:]))
