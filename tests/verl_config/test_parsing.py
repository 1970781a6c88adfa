from __future__ import annotations

import pytest
from omegaconf import OmegaConf, base
from omegaconf.errors import GrammarParseError

from autotune.verl_config.parsing import parse_each_text_once

INTERPOLATIONS = (
    "${a}",
    "${.b}",
    "text ${a} and ${sub.b}",
    "${oc.select:sub.none,[1, {x: ${a}}]}",
    "${sub.${name}}",
    "${oc.env:UNSET_HERE,'not set'}",
    r"\${a}",
)


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """OmegaConf's own parser, whatever other tests composed, and again afterwards."""
    monkeypatch.setattr(base, "parse", getattr(base.parse, "__wrapped__", base.parse))


def resolved(a: int, text: str) -> object:
    source = OmegaConf.create({"a": a, "b": a + 1, "name": "b", "sub": {"b": -a}, "read": text})
    return OmegaConf.to_container(source, resolve=True)


@pytest.mark.parametrize("text", INTERPOLATIONS)
def test_values_are_those_of_a_parser_that_keeps_nothing(text: str) -> None:
    expected = [resolved(a, text) for a in (1, 2, 1)]
    parse_each_text_once()
    assert [resolved(a, text) for a in (1, 2, 1)] == expected


def test_a_text_is_parsed_once() -> None:
    parse_each_text_once()
    parse_each_text_once()
    assert base.parse("${a.b}") is base.parse("${a.b}")
    assert base.parse("${a.b}") is not base.parse("${a.c}")
    assert not hasattr(base.parse.__wrapped__, "cache_info")


def test_a_text_that_does_not_parse_raises_each_time() -> None:
    parse_each_text_once()
    for _ in range(2):
        with pytest.raises(GrammarParseError):
            base.parse("${a")
