"""A recorded landscape is read as a space, its candidates and their true speeds."""

import gzip
import lzma

import pytest

from benchmarks.landscape.recording import read
from tests.benchmarks.synthetic import DYNAMIC, MICRO, SEQS, TOKENS, write


@pytest.fixture
def landscape(tmp_path):
    return read(write(tmp_path))["synthetic"]


def test_repeats_are_gathered_by_candidate(landscape):
    assert len(landscape.configurations) == 24
    assert all(len(c.runs) == 3 for c in landscape.configurations)
    assert landscape.start.params == {DYNAMIC: False, MICRO: 2, SEQS: 16}
    assert landscape.is_synthetic
    assert landscape.provenance[0]["note"] == "made up for a test"
    assert landscape.steps == 6


def test_the_best_is_a_mean_over_repeats_and_failures_have_no_speed(landscape):
    assert landscape.best == pytest.approx(100.0 * (1 + 1.6 + 0.4 + 0.256), rel=0.02)
    failed = landscape.nearest({DYNAMIC: False, MICRO: 16, SEQS: 64})
    assert failed.tokens_per_s is None


def test_the_space_has_the_conditions_that_the_data_show(landscape):
    space = landscape.space
    for configuration in landscape.configurations:
        assert space.contains(configuration.params)
    by_tokens = [p.key for p in space.active({DYNAMIC: True})]
    assert TOKENS in by_tokens
    assert MICRO not in by_tokens
    assert space.user_params() == dict(landscape.start.params)


def test_what_was_not_recorded_is_its_nearest_neighbour(landscape):
    assert landscape.holds({DYNAMIC: False, MICRO: 4, SEQS: 64})
    unheard = {DYNAMIC: False, MICRO: 4, SEQS: 48}
    assert not landscape.holds(unheard)
    assert landscape.nearest(unheard).params[MICRO] == 4


@pytest.mark.parametrize(("suffix", "opener"), [(".gz", gzip.open), (".xz", lzma.open)])
def test_compressed_files_are_read_alike(tmp_path, landscape, suffix, opener):
    plain = write(tmp_path)
    packed = tmp_path / f"synthetic.jsonl{suffix}"
    with opener(packed, "wt") as file:
        file.write(plain.read_text())
    assert read(packed)["synthetic"].best == landscape.best


def test_a_line_of_another_format_is_named(tmp_path):
    path = write(tmp_path)
    path.write_text(path.read_text() + '{"params": {"a": 1}}\n')
    with pytest.raises(ValueError, match=r"line 74: no run of a landscape \(KeyError\('job'\)\)"):
        read(path)
