"""The controller's side of verl's own checks: one child in verl's interpreter, started on first use."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from autotune.errors import Fault, VerlConfigError

_CHILD = "autotune.verl_plugin.validator"
_TAIL_LINES = 15
_CLOSE_S = 5.0


@dataclass(frozen=True, kw_only=True)
class PromptLengths:
    """Tokens of a job's training prompts, chat template included."""

    rows: int
    counted: int
    mean: float
    quantiles_tokens: Mapping[float, int]
    """0.05, 0.5, 0.9, 0.95 and 0.99."""
    longest: int
    over_limit_frac: float
    """Share of prompts longer than data.max_prompt_length."""
    masks_fit: bool
    """The tokenizer gave every prompt as many mask entries as ids."""


class VerlValidator:
    """Asks the verl of `python` whether it takes a configuration. A context manager; lazy; one thread."""

    def __init__(
        self,
        python: str | None = None,
        environment: Mapping[str, str] | None = None,
        *,
        time_limit_s: float = 300.0,
    ) -> None:
        """`python`: verl's interpreter; `environment`: laid over this process's own."""
        self._python = python or sys.executable
        self._environment = dict(environment or {})
        self._time_limit_s = time_limit_s
        self._child: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._stderr: IO[bytes] | None = None

    def __enter__(self) -> VerlValidator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def validate(self, config_yaml: str) -> list[str]:
        """What verl says against the configuration, one text a rule; empty where verl takes it.

        Raises:
            VerlConfigError: the child died, could not import verl, or gave no answer in time.
        """
        return [str(text) for text in self._ask(call="validate", config_yaml=config_yaml)]

    def missing_loggers(self, names: Sequence[str]) -> dict[str, str]:
        """Why verl's environment cannot log to one of these backends, by name; empty: it can to all.

        Raises:
            VerlConfigError: as `validate`.
        """
        answer: dict[str, str] = self._ask(call="missing_loggers", names=list(names))
        return answer

    def longest_prompts(self, config_yaml: str, rows: int, target: Path) -> int:
        """Write the `rows` longest prompts within data.max_prompt_length to the parquet file `target`.

        Repeats them where the data has fewer. Returns the longest one's tokens.

        Raises:
            VerlConfigError: as `validate`; also where data or tokenizer cannot be read.
        """
        return int(
            self._ask(
                call="longest_prompts", config_yaml=config_yaml, rows=rows, target=str(target.absolute())
            )
        )

    def prompt_lengths(self, config_yaml: str, rows: int = 20_000) -> PromptLengths:
        """How long the prompts of data.train_files are; of more than `rows`, evenly spaced ones are counted.

        Raises:
            VerlConfigError: as `validate`; also where data or tokenizer cannot be read.
        """
        answer = self._ask(call="prompt_lengths", config_yaml=config_yaml, rows=rows)
        quantiles = {float(part): int(tokens) for part, tokens in answer.pop("quantiles").items()}
        return PromptLengths(quantiles_tokens=quantiles, **answer)

    def close(self) -> None:
        """End the child, if one was started; a later call starts another."""
        if self._child is None:
            return
        child, self._child = self._child, None
        if child.stdin is not None and not child.stdin.closed:
            child.stdin.close()
        try:
            child.wait(_CLOSE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        if self._stderr is not None:
            self._stderr.close()

    def _ask(self, **request: Any) -> Any:
        child = self._child or self._start()
        assert child.stdin is not None
        try:
            child.stdin.write(json.dumps(request) + "\n")
            child.stdin.flush()
        except OSError:
            raise self._died("ended") from None
        answer = self._answer()
        if "error" in answer:
            raise VerlConfigError(
                Fault(
                    where="verl",
                    key=str(request["call"]),
                    found=str(answer["error"]),
                    next_step="correct the data, model or configuration that it names",
                )
            )
        return answer["result"]

    def _start(self) -> subprocess.Popen[str]:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115, closed with the child
        self._answers = queue.Queue()
        try:
            child = subprocess.Popen(
                [self._python, "-m", _CHILD],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                text=True,
                env={**os.environ, **self._environment},
            )
        except OSError as error:
            raise VerlConfigError(
                Fault(
                    where="resources.python",
                    found=f"{self._python}: {error.strerror}",
                    allowed="the Python interpreter of the environment that runs verl",
                    next_step="correct it, or leave it out to take the one that runs autotune",
                )
            ) from error
        self._child = child
        threading.Thread(target=_read, args=(child.stdout, self._answers), daemon=True).start()
        self._answer()
        return child

    def _answer(self) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=self._time_limit_s)
        except queue.Empty:
            raise self._died(f"gave no answer within {self._time_limit_s:.0f} s") from None
        if line is None:
            raise self._died("ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _died(self, how: str) -> VerlConfigError:
        child = self._child
        assert child is not None
        if how == "ended":
            child.wait()
        else:
            child.kill()
        tail = self._stderr_tail()
        self.close()
        return VerlConfigError(
            Fault(
                where="verl",
                key=_CHILD,
                found=f"{self._python} {how} (exit code {child.returncode}); its last lines: {tail}",
                allowed="an interpreter that imports verl and autotune",
                next_step=f"run `{self._python} -c 'import verl, {_CHILD}'` to see the whole error",
            )
        )

    def _stderr_tail(self) -> str:
        assert self._stderr is not None
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").splitlines()
        return "\n".join(lines[-_TAIL_LINES:])


def _read(stdout: IO[str], answers: queue.Queue[str | None]) -> None:
    for line in stdout:
        answers.put(line)
    answers.put(None)
