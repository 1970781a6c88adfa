from types import SimpleNamespace

import pytest

from autotune.verl_plugin import tiny_job
from autotune.verl_plugin.token_check import Sample, checking_once, faults_of

END = 9
MESSAGES = [{"role": "user", "content": "x"}]


def template(messages):
    return [1, 2, 3, 4]


def sample(**changes):
    right = {"prompt_ids": [1, 2, 3, 4], "response_ids": [5, 6, END], "response_mask": [1, 1, 1]}
    return Sample(**{**right, "messages": MESSAGES, **changes})


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (
            {"prompt_ids": [1, 2, 7, 4]},
            "the prompt's 4 ids differ from the chat template's 4 from token 2 on",
        ),
        ({"prompt_ids": [1, 2, 3]}, "the prompt's 3 ids differ from the chat template's 4 in length"),
        ({"response_mask": [1, 1]}, "the response mask has 2 entries for 3 ids"),
        ({"response_mask": [1, 2, 1]}, "the response mask has values besides 0 and 1: [1, 2]"),
        ({"response_mask": [1, 0, 1]}, "1 ids of a single response are masked out"),
        ({"response_ids": [5, 6, 7]}, "the response ends with token 7 at 3 of 5 tokens"),
    ],
)
def test_what_does_not_agree(changes, fault):
    assert list(faults_of(sample(**changes), template, [END], (8, 5))) == [fault]


@pytest.mark.parametrize(
    ("changes", "limits"),
    [
        ({}, (8, 5)),
        ({"response_ids": [5, 6, 7]}, (8, 3)),  # cut off at the limit: no end token
        ({"prompt_ids": [3, 4]}, (2, 5)),  # verl cuts a long prompt at its beginning
        ({"response_ids": [], "response_mask": []}, (8, 5)),
    ],
)
def test_what_agrees(changes, limits):
    assert list(faults_of(sample(**changes), template, [END], limits)) == []


def test_a_check_that_cannot_run_ends_no_training():
    computed = []
    checked = checking_once(lambda *args: computed.append(args), module=object())
    metrics = {}
    for _ in range(2):
        checked("trainer", "batch", metrics, {})
    assert len(computed) == 2
    assert metrics == {}


@pytest.mark.verl
def test_a_real_tokenizers_prompts_agree_and_a_wrong_one_is_found(tmp_path, capsys):
    """The chat template of the tiny job's tokenizer, over nested tensors as verl keeps them."""
    import torch
    from omegaconf import OmegaConf

    tokenizer = tiny_job._save_tokenizer(tiny_job._words(), tmp_path / "model")
    chats = [[{"role": "user", "content": words}] for words in ("bada", "bada kuru", "nilo")]
    prompts = [
        tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False) for chat in chats
    ]
    prompts[1] = prompts[1][:-1]  # without the generation prompt's last token
    response = [5, 6, tokenizer.eos_token_id]

    def nested(rows):
        return torch.nested.as_nested_tensor([torch.tensor(row) for row in rows], layout=torch.jagged)

    columns = {
        "prompts": nested(prompts),
        "responses": nested([response] * 3),
        "response_mask": nested([[1, 1, 1]] * 3),
        "raw_prompt": chats,
    }
    queue = SimpleNamespace(kv_batch_get=lambda **asked: columns)
    trainer = SimpleNamespace(
        tokenizer=tokenizer,
        config=OmegaConf.create(
            {
                "data": {"max_prompt_length": 64, "max_response_length": 48},
                "actor_rollout_ref": {"model": {"path": str(tmp_path / "model")}},
            }
        ),
    )
    batch = SimpleNamespace(keys=["a", "b", "c", "pad"], tags=[{}, {}, {}, {"is_padding": True}])
    batch.partition_id = "train"
    metrics = {}
    checking_once(lambda *args: None, SimpleNamespace(tq=queue))(trainer, batch, metrics, {})
    assert metrics == {"autotune/token_faults": 1.0, "autotune/tokens_checked": 3.0}
    assert "autotune token check: sample 1: the prompt's" in capsys.readouterr().out
