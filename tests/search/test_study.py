"""A stage's study on a real SQLite file, a crash in between included."""

import warnings

import optuna
import pytest
from optuna.trial import TrialState
from optuna_dashboard import get_note

from autotune.records import Candidate, StageName
from autotune.search.moves import completed
from autotune.search.study import StageStudy, open_storage, study_name
from autotune.search.telling import Telling
from tests.search.builders import BUDGET, DYNAMIC, ENGINE, MICRO, OFFLOAD, choice, memory_space, space

SIZES = space(choice("sizes", [1, 2], [1, 2, 4], current=[1, 2]), *memory_space().parameters)
USER = completed(SIZES, {})


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/job.db"


def opened(url, where=SIZES):
    """A study as a new process would open it."""
    return StageStudy(open_storage(url), job_name="tiny", stage=StageName.SURVIVE, space=where, seed=3)


def trials(url):
    return optuna.load_study(study_name=study_name("tiny", StageName.SURVIVE), storage=url).get_trials()


def candidate(**changes):
    return Candidate(params={**USER, **changes}, origin="sampler")


def test_studies_sort_in_the_ladders_order():
    names = [study_name("tiny", stage) for stage in StageName]
    assert names == sorted(names) == ["tiny 1 survive", "tiny 2 speed", "tiny 3 quality", "tiny 4 finish"]


def test_ask_opens_a_running_trial_with_exactly_its_values(url):
    assert opened(url).ask(candidate()) == 0
    (trial,) = trials(url)
    assert trial.state is TrialState.RUNNING
    assert trial.datetime_start is not None
    assert trial.user_attrs == {"origin": "sampler"}
    assert trial.params == {"sizes": "json:[1, 2]", DYNAMIC: False, MICRO: 16, ENGINE: 0.6, OFFLOAD: False}


def test_a_curves_move_shows_its_diagnosis_and_reason(url):
    told = {"origin": "curve of #0", "diagnosis": "#0: still rising", "reason": "larger steps"}
    opened(url).ask(Candidate(params=USER, **told))
    assert trials(url)[0].user_attrs == told


def test_numbers_follow_each_other_and_conditions_are_kept(url):
    study = opened(url)
    by_tokens = completed(SIZES, {DYNAMIC: True, BUDGET: 4096, "sizes": [1, 2, 4]})
    # Out of order and with a value that does not apply: the point is what counts.
    params = dict(reversed({**by_tokens, MICRO: 8}.items()))
    assert [study.ask(candidate()), study.ask(Candidate(params=params, origin="x"))] == [0, 1]
    assert trials(url)[1].params == {
        "sizes": "json:[1, 2, 4]",
        DYNAMIC: True,
        BUDGET: 4096,
        ENGINE: 0.6,
        OFFLOAD: False,
    }


def test_a_users_configuration_without_some_values_can_be_asked(url):
    study = opened(url)
    study.ask(Candidate(params={ENGINE: 0.6}, origin="user configuration"))
    assert trials(url)[0].params == {ENGINE: 0.6}


def test_report_and_tell_what_completed(url):
    study = opened(url)
    number = study.ask(candidate())
    for step, value in enumerate((0.25, 0.5, 1.0), start=1):
        study.report(number, step, value)
    study.tell(
        number,
        Telling(
            state="complete",
            value=1.25,
            constraints={"memory_update_actor": -0.1, "memory_rollout": -0.3},
            attributes={"outcome": "completed", "warnings": ["noise"]},
            note="**completed**",
        ),
    )
    (trial,) = trials(url)
    assert (trial.state, trial.value) == (TrialState.COMPLETE, 1.25)
    assert trial.intermediate_values == {1: 0.25, 2: 0.5, 3: 1.0}
    assert trial.constraints == {"memory_update_actor": -0.1, "memory_rollout": -0.3}
    assert trial.user_attrs == {"origin": "sampler", "outcome": "completed", "warnings": ["noise"]}
    loaded = optuna.load_study(study_name="tiny 1 survive", storage=url)
    assert get_note(optuna.trial.Trial(loaded, trial._trial_id)) == "**completed**"


@pytest.mark.parametrize(
    ("telling", "state", "constraints"),
    [
        (
            Telling(state="pruned", constraints={"memory_rollout": 0.4}),
            TrialState.PRUNED,
            {"memory_rollout": 0.4},
        ),
        (Telling(state="fail", attributes={"kind": "port_conflict"}), TrialState.FAIL, {}),
    ],
)
def test_tell_what_did_not_complete(url, telling, state, constraints):
    study = opened(url)
    number = study.ask(candidate())
    study.tell(number, telling)
    (trial,) = trials(url)
    assert (trial.state, trial.value, trial.constraints) == (state, None, constraints)
    assert study.is_told(number)


def test_a_trial_left_by_a_crash_is_found_and_told_by_its_number(url):
    before = opened(url)
    before.ask(candidate())
    before.ask(candidate(**{ENGINE: 0.5}))
    before.tell(0, Telling(state="complete", value=1.0))
    after = opened(url)
    assert after.running() == [1]
    assert [after.is_told(0), after.is_told(1)] == [True, False]
    after.report(1, 1, 0.5)
    after.tell(1, Telling(state="pruned", constraints={"memory_rollout": 0.2}))
    assert after.running() == []
    assert trials(url)[1].constraints == {"memory_rollout": 0.2}
    assert after.ask(candidate(**{ENGINE: 0.4})) == 2


def test_a_crash_in_the_middle_of_a_tell_is_told_again(url):
    before = opened(url)
    number = before.ask(candidate())
    telling = Telling(state="complete", value=1.0, constraints={"memory_rollout": -0.2}, note="once")
    study = optuna.load_study(study_name="tiny 1 survive", storage=url)
    trial = optuna.trial.Trial(study, number + 1)
    trial.set_constraint("memory_rollout", -0.2)
    trial.set_user_attr("outcome", "completed")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opened(url).tell(number, telling)
    (told,) = trials(url)
    assert (told.state, told.constraints) == (TrialState.COMPLETE, {"memory_rollout": -0.2})


def test_a_retry_reports_its_steps_again_without_a_word(url):
    study = opened(url)
    number = study.ask(candidate())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        study.report(number, 1, 0.2)
        study.report(number, 1, 0.3)
    assert trials(url)[0].intermediate_values == {1: 0.2}


def test_a_trial_enqueued_from_outside_does_not_take_an_askers_place(url):
    study = opened(url)
    optuna.load_study(study_name="tiny 1 survive", storage=url).enqueue_trial({ENGINE: 0.9})
    number = study.ask(candidate(**{ENGINE: 0.4}))
    assert trials(url)[number].params[ENGINE] == 0.4


def test_the_sampler_continues_after_a_crash_where_it_would_have_gone(url, tmp_path):
    def run(url, reopen):
        study, tried = opened(url), []
        for _ in range(7):
            study = opened(url) if reopen else study
            proposal = study.sampled(tried)
            tried.append(proposal.params)
            study.tell(study.ask(proposal), Telling(state="complete", value=proposal.params[ENGINE]))
        return tried

    assert run(url, reopen=True) == run(f"sqlite:///{tmp_path}/other.db", reopen=False)


def test_nothing_untried_is_none(url):
    where = space(choice("a", True, False))
    study = opened(url, where)
    assert study.sampled([{"a": True}, {"a": False}]) is None
    assert study.sampled([{"a": True}]) == Candidate(params={"a": False}, origin="sampler")


def test_a_pruned_trial_stands_where_its_last_step_did(url):
    study = opened(url)
    number = study.ask(candidate())
    study.report(number, 2, 0.5)
    study.report(number, 1, 0.25)
    study.tell(number, Telling(state="pruned"))
    assert trials(url)[0].value == 0.5


def test_a_changed_space_is_refused(url):
    opened(url).ask(candidate())
    other = space(choice("sizes", [1, 2], [1, 2, 8], current=[1, 2]), *memory_space().parameters)
    with pytest.raises(ValueError, match="dynamic value space"):
        opened(url, other).ask(candidate())
