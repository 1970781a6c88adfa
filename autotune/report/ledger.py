"""The books of a job as `status` and the report show them: where device time went, what was not spent."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from autotune.judge.ledger import Ledger, PayBack
from autotune.report.wording import number, percent, seconds


def ledger_json(ledger: Ledger, pay_back: PayBack | None) -> dict[str, Any]:
    """Stable fields of `status --json`; `pay_back` is null before there is a gain to speak of."""
    return {
        "gpu_s": ledger.gpu_s,
        "entries": [
            {"stage": e.stage.value, "outcome": e.outcome, "trials": e.trials, "gpu_s": e.gpu_s}
            for e in ledger.entries
        ],
        "saved_gpu_s": {
            "early_end": ledger.saved_by_early_end_gpu_s,
            "rejection": ledger.saved_by_rejection_gpu_s,
            "warmth": ledger.saved_by_warmth_gpu_s,
        },
        "pay_back": None
        if pay_back is None
        else {
            "cost_gpu_s": pay_back.cost_gpu_s,
            "saved_gpu_s_per_100_steps": pay_back.saved_gpu_s_per_100_steps,
            "steps_to_pay_back": pay_back.steps_to_pay_back,
            "noise_frac": pay_back.noise_frac,
        },
    }


def ledger_lines(ledger: Ledger, pay_back: PayBack | None) -> list[Text]:
    """Device time by outcome, savings and pay-back, one line each; nothing before the first trial."""
    lines = []
    if ledger.entries:
        by_outcome: dict[str, float] = {}
        for entry in ledger.entries:
            by_outcome[entry.outcome] = by_outcome.get(entry.outcome, 0.0) + entry.gpu_s
        spent = ", ".join(f"{outcome} {seconds(gpu_s)}" for outcome, gpu_s in by_outcome.items())
        lines.append(Text(f"GPU time by outcome: {spent}"))
    saved = savings_gpu_s(ledger)
    if saved:
        told = ", ".join(f"{seconds(gpu_s)} by {way}" for way, gpu_s in saved.items())
        lines.append(Text(f"GPU time saved: {told}"))
    if pay_back is not None:
        lines.append(Text(pay_back_sentence(pay_back)))
    return lines


def savings_gpu_s(ledger: Ledger) -> dict[str, float]:
    """Device seconds that were not spent, by what saved them; what saved nothing is left out."""
    saved = {
        "ending trials early": ledger.saved_by_early_end_gpu_s,
        "refusing before launch": ledger.saved_by_rejection_gpu_s,
        "warm starts": ledger.saved_by_warmth_gpu_s,
    }
    return {way: gpu_s for way, gpu_s in saved.items() if gpu_s > 0.0}


def pay_back_sentence(pay_back: PayBack) -> str:
    """`tuning cost 0.52 GPU hours, saves 0.08 per 100 steps: paid back after 650 steps`."""
    cost = number(pay_back.cost_gpu_s / 3600)
    if pay_back.noise_frac is not None:
        noise = f"the {percent(pay_back.noise_frac)} that runs of one configuration differ by"
        return f"tuning cost {cost} GPU hours; its gain is within {noise}, so nothing is counted as saved"
    if pay_back.steps_to_pay_back is None:
        return f"tuning cost {cost} GPU hours and saves nothing in a step"
    saves = number(pay_back.saved_gpu_s_per_100_steps / 3600)
    after = number(pay_back.steps_to_pay_back)
    return f"tuning cost {cost} GPU hours, saves {saves} per 100 steps: paid back after {after} steps"
