"""What a grown view has kept is what a look through the whole stage finds."""

import random
from dataclasses import replace

from autotune.ladder import speed
from autotune.ladder.early_end import best_speed
from autotune.ladder.folds import Folds
from autotune.ladder.quality import next_move as quality_move
from autotune.ladder.stopping import SAMPLER, history
from tests.ladder.builders import SURVIVOR, failed, quality_view, ran, speed_view, trial

ORIGINS = (SAMPLER, SAMPLER, "one change from #0: micro 2 -> 4")


def some_trial(number, chance):
    if number < 2 or number % 7 == 0:
        return ran(number, SURVIVOR, chance.gauss(1000.0, 20.0), origin="survivor, repeated")
    params = {**SURVIVOR, "share": round(0.3 + number / 1000, 3)}
    if chance.random() < 0.2:
        return trial(number, params, failed(chance.choice(["port_conflict", "oom_gpu_actor_update"])))
    peak = chance.choice([0.5, 0.9])
    return ran(number, params, chance.gauss(1000.0, 150.0), origin=chance.choice(ORIGINS), peak=peak)


def grown(stage, trials, slots, chance):
    """Views of a stage as its trials begin and end, each made from the one before."""
    view, running = stage, []
    for one in trials:
        view = view.with_trial(replace(one, verdict=None, objective=None))
        running.append(one)
        while len(running) >= slots:
            view = view.with_trial(running.pop(chance.randrange(len(running))))
            yield view


def incumbent(view, noise_frac):
    """By its definition: each incumbent beat the one before it by more than the noise."""
    best = speed.incumbent(replace(view, folds=Folds(), trials=view.repeats), noise_frac)
    for one in view.trials:
        if not view.is_start(one) and speed._beats(view, one, best, noise_frac):
            best = one
    return best


def gains(view, noise_frac):
    """The rises by more than the noise, and the sampled trials since the latest."""
    best, dry, found = None, 0, []
    for one in view.ended:
        peak = one.verdict.figures.peak_memory_frac
        value = one.objective if one.is_complete and peak <= view.section.peak_memory_frac else None
        if best is not None and value is not None and value - best > 2 * noise_frac * best:
            found.append((value - best) / best)
            dry = 0
        else:
            dry += one.candidate.origin == SAMPLER and not one.is_void
        best = value if best is None else max(best, value or best)
    return tuple(found), dry


def test_the_speed_stage_finds_what_it_would_have_found_from_the_start():
    for slots in (1, 3):
        chance = random.Random(slots)
        trials = [some_trial(number, chance) for number in range(60)]
        stage = speed_view(trials=1000, baseline_every=5)
        for view in grown(stage, trials, slots, chance):
            fresh = replace(view, folds=Folds())
            assert speed.next_move(view) == speed.next_move(fresh)
            assert best_speed(view) == best_speed(fresh)
            if speed.baseline(view) is None:
                continue
            for noise_frac in (0.02, 0.1):
                assert speed.incumbent(view, noise_frac) is incumbent(view, noise_frac)
                past = history(view, noise_frac)
                assert (past.gains, past.dry) == gains(view, noise_frac)


def test_stage_quality_looks_at_the_best_two():
    chance = random.Random(1)
    trials = [some_trial(number, chance) for number in range(30)]
    for view in grown(quality_view(trials=1000, patience=None), trials, 2, chance):
        assert quality_move(view) == quality_move(replace(view, folds=Folds()))


def test_a_fold_is_done_anew_where_an_ended_trial_changed():
    first, second = ran(0, SURVIVOR, 1.0), ran(1, SURVIVOR, 2.0)
    view = speed_view(first, second)

    def total(view):
        return view.folds.over(view, "total", 0.0, lambda sum_, one: sum_ + one.objective)

    assert total(view) == 3.0
    assert total(view.with_trial(replace(first, objective=5.0))) == 7.0
    assert total(view) == 3.0
