"""A job file's sections about the world outside: who else sees the trials, and who is told of the run."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator

from autotune.job.section import JOB_NAME, Section, refused

Tracker = Literal["tensorboard", "wandb", "mlflow"]


class MirrorSection(Section):
    """Every trial is shown in the user's own trackers too, by verl's own loggers, a run for each attempt."""

    loggers: Annotated[tuple[Tracker, ...], Field(strict=False)] = ()
    """verl's loggers beside autotune's own two. What is measured and exported stays the same."""
    project: Annotated[str, Field(pattern=JOB_NAME)] | None = None
    """verl's trainer.project_name (W&B: project, MLflow: experiment). None: the job's name."""
    experiment: Annotated[str, Field(pattern=JOB_NAME)] | None = None
    """Begins verl's trainer.experiment_name, before `/STAGE-TRIAL-ATTEMPT`. None: the job's name."""


NoticeEvent = Literal["stage_end", "stop", "finish"]
WEBHOOK_URL = r"https?://[^\s/@]+(/\S*)?"
_WEBHOOK = rf"{WEBHOOK_URL}|\$\{{?[A-Za-z_][A-Za-z0-9_]*\}}?"


class NotifySection(Section):
    """Who is told when a stage ends and when the run stops or comes to its end. Never fails or delays it."""

    # Neither goes into any dump of the job, so neither into the database: they often hold secrets.
    command: Annotated[tuple[str, ...], Field(strict=False, min_length=1)] | None = Field(
        default=None, exclude=True
    )
    """Program with its arguments; gets the notice as JSON on standard input."""
    webhook: SecretStr | None = Field(default=None, exclude=True)
    """URL that the notice is posted to as JSON, or `$NAME` of the environment variable that holds it."""
    events: Annotated[tuple[NoticeEvent, ...], Field(strict=False)] = ("stage_end", "stop", "finish")
    """`stage_end`; `stop`: the run ended early (Ctrl-C, budget, fault, error); `finish`: at its end."""

    @field_validator("webhook")
    @classmethod
    def _webhook_is_a_url(cls, webhook: SecretStr | None) -> SecretStr | None:
        if webhook is not None and not re.fullmatch(_WEBHOOK, webhook.get_secret_value()):
            raise refused(
                found="something else (not shown, since it may be a secret)",
                allowed="http(s)://HOST/..., or $NAME of the environment variable that holds such a URL",
                next_step="correct it; the variable keeps it out of the file",
            )
        return webhook
