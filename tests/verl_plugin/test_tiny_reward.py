import pytest

from autotune.verl_plugin.tiny_reward import compute_score


@pytest.mark.parametrize(
    ("answer", "reward"), [("", 0.0), (" kava", 1.0), (" kava mumi", 0.5), (" mumi", 0.0), ("   ", 0.0)]
)
def test_reward_is_the_share_of_words_with_the_ending(answer, reward):
    assert compute_score("tiny/endings", answer, "a", extra_info={"index": 0}) == reward
