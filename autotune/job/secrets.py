"""What must never be written down: values of environment variables that are secrets by their name or look."""

from __future__ import annotations

import re
from collections.abc import Mapping

WITHHELD = "(withheld)"
"""Stands where a secret's value would."""

_SECRET_NAME = re.compile(
    r"(^|_)([A-Z0-9]*(KEYS?|TOKEN|SECRETS?|PASSWD|PASSWORD|WEBHOOK)|PASS)(_|$)", re.IGNORECASE
)
_CREDENTIALS_IN_URL = re.compile(r"://[^/\s@]+@")


def is_secret(name: str, value: str = "") -> bool:
    """Whether an environment variable holds a key, token or password, or a URL that carries one."""
    by_value = value == WITHHELD or _CREDENTIALS_IN_URL.search(value)
    return bool(_SECRET_NAME.search(name) or by_value)


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that anybody may read."""
    return {name: value for name, value in environment.items() if not is_secret(name, value)}


def secrets_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The other ones."""
    return {name: value for name, value in environment.items() if is_secret(name, value)}


def withheld(environment: Mapping[str, str]) -> dict[str, str]:
    """All variables, with `WITHHELD` in place of each secret's value."""
    return {**environment, **dict.fromkeys(secrets_of(environment), WITHHELD)}
