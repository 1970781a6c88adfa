"""The launcher's books of warm sessions: which runs, which waits, which takes a candidate."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotune.trial.request import AttemptRequest, SessionPlace


@dataclass(eq=False)
class WarmSession:
    """One verl process that runs candidates of one cold key, one at a time."""

    id: str
    folder: str
    key: str
    runner: Any
    """Handle of the Ray actor that lives as long as the session."""
    gpus: int = 1
    """Devices that it holds, as each of its candidates does: their number is part of the cold key."""
    node: str = ""
    """The node they are on; empty where there is but one."""
    given: int = 0
    """Candidates that it was given."""

    @classmethod
    def for_first(cls, request: AttemptRequest, runner: Any, node: str = "") -> WarmSession:
        """A session that begins with this request; its folder lies beside the attempts' folders."""
        assert request.session_key is not None
        session_id = uuid.uuid4().hex[:12]
        folder = Path(request.folder).parent.parent / "sessions" / session_id
        return cls(session_id, str(folder), request.session_key, runner, gpus=request.gpus, node=node)

    def next_place(self) -> SessionPlace:
        """The place of its next candidate."""
        place = SessionPlace(id=self.id, folder=self.folder, number=self.given)
        self.given += 1
        return place


@dataclass
class SessionPool:
    """The sessions that wait for a candidate, the one that waits longest first."""

    idle: list[WarmSession] = field(default_factory=list)

    def take(self, key: str | None) -> WarmSession | None:
        """The one of this cold key that ran last; it is idle no more. None where there is none."""
        for session in reversed(self.idle):
            if key is not None and session.key == key:
                self.idle.remove(session)
                return session
        return None

    def give_back(self, session: WarmSession) -> None:
        """Its candidate has ended, and it may have another."""
        self.idle.append(session)

    def keys(self) -> frozenset[str]:
        """Cold keys of those that wait."""
        return frozenset(session.key for session in self.idle)

    def oldest(self) -> WarmSession:
        """The one that waits longest."""
        return self.idle[0]

    def forget(self, session: WarmSession) -> None:
        """It is being ended."""
        if session in self.idle:
            self.idle.remove(session)
