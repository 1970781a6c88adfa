"""Makes a job that trains in seconds on two cores: `python -m autotune.verl_plugin.tiny_job FOLDER`.

Everything comes from code and fixed seeds, nothing is downloaded: a two-layer Qwen2 with a vocabulary of
4096 (so that logits are most of a training worker's memory, as they are for large models), prompts of
varied length, and a short supervised warm-up after which the model answers with words of a short list
and ends by itself, well below the job's response limit. Two of five of those words end in `a`, which is
what the reward pays: about 0.4 at the start, and reinforcement learning has something to find.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

from autotune.verl_plugin import tiny_reward

VERSION = 1
"""Part of the folder's stamp: a folder of another version is made again."""
STAMP = "complete.json"

VOCABULARY = 4096
ANSWER_WORDS = 40
REWARDED_ENDING = "a"
REWARDED_WORDS = 16
"""Of the answer words; 16 of 40 give a reward of 0.4."""
ANSWER_LENGTH = (6, 20)
"""Words (and tokens) of a warm-up answer, inclusive."""
PROMPT_WORDS = (1, 25)
TRAIN_ROWS, VALIDATION_ROWS = 512, 32

CONSONANTS = "bcdfghjklmnpqrstvwyz"
VOWELS = "aeiou"
PAD, END, START = "<|endoftext|>", "<|im_end|>", "<|im_start|>"
SPACE = "\u0120"
"""How byte-level BPE writes a space."""
CHAT_TEMPLATE = (
    "{% for m in messages %}"
    "{{'<|im_start|>' + m['role'][0] + '\n' + m['content'] + '<|im_end|>\n'}}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{'<|im_start|>a\n'}}{% endif %}"
)


def make_tiny_job(folder: Path) -> bool:
    """Fill `folder` with model/, train.parquet, val.parquet and reward.py unless it is complete already.

    Returns whether anything was made. A folder that an earlier, interrupted call left behind is replaced.

    Raises:
        OSError: the folder cannot be written.
    """
    if _is_complete(folder):
        return False
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        words = _words()
        tokenizer = _save_tokenizer(words, part / "model")
        _save_warm_model(tokenizer, words, part / "model")
        _save_rows(_prompts(words, TRAIN_ROWS, seed=1), part / "train.parquet")
        _save_rows(_prompts(words, VALIDATION_ROWS, seed=2), part / "val.parquet")
        shutil.copyfile(tiny_reward.__file__, part / "reward.py")
        (part / STAMP).write_text(json.dumps({"version": VERSION}), encoding="utf-8")
        if folder.exists():
            shutil.rmtree(folder)
        os.chmod(part, 0o755)
        os.replace(part, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return True


def _is_complete(folder: Path) -> bool:
    try:
        stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(stamp == {"version": VERSION})


def _syllables() -> list[str]:
    return [consonant + vowel for consonant in CONSONANTS for vowel in VOWELS]


def _words() -> list[str]:
    """All words of the language, the answer words first (of these, the rewarded ones first)."""
    bytes_and_specials = 256 + 3
    count = VOCABULARY - bytes_and_specials - len(_syllables()) - ANSWER_WORDS
    pairs = [first + second for first in _syllables() for second in _syllables()]
    random.Random(0).shuffle(pairs)
    rewarded = [word for word in pairs if word.endswith(REWARDED_ENDING)][:REWARDED_WORDS]
    others = [word for word in pairs if not word.endswith(REWARDED_ENDING)][: ANSWER_WORDS - REWARDED_WORDS]
    answers = rewarded + others
    rest = [word for word in pairs if word not in set(answers)]
    return answers + rest[: count - len(answers)]


def _save_tokenizer(words: list[str], folder: Path) -> Any:
    """Byte-level BPE: letters merge to syllables, syllables to words, a space and an answer word to one.

    verl wants a newline to be one token and `<|im_end|>` to exist (verl 0.9.1
    utils/tokenizer/continuous_token.py:554-560); transformers 5 rebuilds any Qwen2 tokenizer as byte-level.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    merges = [(syllable[0], syllable[1]) for syllable in _syllables()]
    merges += [(word[:2], word[2:]) for word in words]
    merges += [(SPACE, word) for word in words[:ANSWER_WORDS]]
    tokens = sorted(pre_tokenizers.ByteLevel.alphabet()) + [left + right for left, right in merges]
    fast = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, merges))
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    fast.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=fast, pad_token=PAD, eos_token=END, additional_special_tokens=[START]
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


def _prompts(words: list[str], count: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(chance.choices(words, k=chance.randint(*PROMPT_WORDS))) for _ in range(count)]


def _save_rows(prompts: list[str], path: Path) -> None:
    """Write verl's columns for a chat prompt with a rule-based reward."""
    import pandas as pd

    rows = [
        {
            "data_source": "tiny/endings",
            "prompt": [{"role": "user", "content": prompt}],
            "ability": "endings",
            "reward_model": {"style": "rule", "ground_truth": REWARDED_ENDING},
            "extra_info": {"index": index},
        }
        for index, prompt in enumerate(prompts)
    ]
    pd.DataFrame(rows).to_parquet(path)


def _save_warm_model(tokenizer: Any, words: list[str], folder: Path) -> None:
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=512,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        tie_word_embeddings=True,
    )
    model = Qwen2ForCausalLM(config)
    _warm_up(model, tokenizer, words)
    model.save_pretrained(folder)


def _warm_up(model: Any, tokenizer: Any, words: list[str], steps: int = 200) -> None:
    """Teach the model to answer with 6 to 20 answer words and to end; loss on the answers only."""
    import torch

    torch.set_num_threads(1)  # four times the work of one thread goes into waiting, with tensors so small
    rows = _WarmUpRows(tokenizer, words)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, total_steps=steps)
    for _ in range(steps):
        ids, is_answer = rows.batch(32)
        hidden = model.model(input_ids=ids).last_hidden_state[:, :-1][is_answer[:, 1:]]
        loss = torch.nn.functional.cross_entropy(model.lm_head(hidden), ids[:, 1:][is_answer[:, 1:]])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()


class _WarmUpRows:
    """Endless batches of prompts with random answers, always the same ones."""

    def __init__(self, tokenizer: Any, words: list[str]) -> None:
        self._chance = random.Random(3)
        self._pad, self._end = tokenizer.pad_token_id, tokenizer.eos_token_id
        self._answers = tokenizer.convert_tokens_to_ids([SPACE + word for word in words[:ANSWER_WORDS]])
        self._heads = [
            tokenizer.apply_chat_template(
                [{"role": "user", "content": prompt}], add_generation_prompt=True, return_dict=False
            )
            for prompt in _prompts(words, 256, seed=4)
        ]

    def batch(self, size: int) -> tuple[Any, Any]:
        """Returns padded token ids, and which of them are the answer or its end."""
        import torch

        heads = self._chance.choices(self._heads, k=size)
        rows = [
            [*head, *self._chance.choices(self._answers, k=self._chance.randint(*ANSWER_LENGTH)), self._end]
            for head in heads
        ]
        width = max(map(len, rows))
        ids = torch.full((size, width), self._pad)
        is_answer = torch.zeros((size, width), dtype=torch.bool)
        for index, (head, row) in enumerate(zip(heads, rows, strict=True)):
            ids[index, : len(row)] = torch.tensor(row)
            is_answer[index, len(head) : len(row)] = True
        return ids, is_answer


def main() -> None:
    """Command line: where to put the job."""
    parser = argparse.ArgumentParser(prog="python -m autotune.verl_plugin.tiny_job", description=__doc__)
    parser.add_argument("folder", type=Path)
    make_tiny_job(parser.parse_args().folder)


if __name__ == "__main__":
    main()
