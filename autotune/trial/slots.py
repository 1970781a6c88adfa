"""The launcher's books of devices: what each node has free, and where one more attempt goes. Pure.

A device is a GPU; on CPU, a data-parallel rank. An attempt lives on one node. What an idle warm session
holds counts as free, since the session goes where an attempt needs the room.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from autotune.trial.sessions import WarmSession


@dataclass(frozen=True)
class Place:
    """Where an attempt goes."""

    node: str
    retired: tuple[WarmSession, ...] = ()
    """Idle sessions that have to end first."""


@dataclass(frozen=True)
class SlotBooks:
    """The devices of one cluster at one moment; nodes by Ray's id, `` where there is but one of no name."""

    free: Mapping[str, int]
    """Devices by node that nobody holds, neither an attempt, nor an idle session, nor a stranger."""
    idle: Sequence[WarmSession] = ()
    """Sessions that wait for a candidate, the one that waits longest first."""
    running: int = 0
    """Attempts that run."""
    most: int | None = None
    """Attempts and idle sessions that may live at once; None: as many as the devices allow."""

    def slots(self, gpus: int) -> int:
        """How many attempts of so many devices could be started now."""
        found = sum(self._within_reach(node) // gpus for node in self.free)
        return max(0, found if self.most is None else min(found, self.most - self.running))

    def place(self, gpus: int) -> Place | None:
        """The node where the fewest sessions have to go and the fewest devices stay free; None: no room.

        A full node is worth more than two half full ones: a large attempt needs a whole one.
        """
        places = [
            (self._make_room(node, gpus), node) for node in self.free if self._within_reach(node) >= gpus
        ]
        if not places:
            return None
        retired, node = min(places, key=lambda place: (len(place[0]), self.free[place[1]], place[1]))
        others = [session for session in self.idle if session not in retired]
        if self.most is not None:
            over = self.running + len(others) + 1 - self.most
            retired += others[: max(0, over)]
        return Place(node, tuple(retired))

    def _within_reach(self, node: str) -> int:
        return self.free[node] + sum(session.gpus for session in self.idle if session.node == node)

    def _make_room(self, node: str, gpus: int) -> list[WarmSession]:
        """The sessions of the node that have waited longest, as many as are in the way."""
        free, retired = self.free[node], list[WarmSession]()
        for session in self.idle:
            if free >= gpus:
                break
            if session.node == node:
                free += session.gpus
                retired.append(session)
        return retired


def unheld(
    capacity: Mapping[str, int], held: Iterable[tuple[str, int]], free_by_ray: Mapping[str, int] | None
) -> dict[str, int]:
    """Devices by node that nobody holds.

    Args:
        capacity: Devices of each node.
        held: Node and devices of everything that the launcher itself has started. Ray hears of it late.
        free_by_ray: What Ray says is free, so that strangers count too; None: nobody else is there.
    """
    free = dict(capacity)
    for node, gpus in held:
        free[node] = free.get(node, 0) - gpus
    if free_by_ray is not None:
        free = {node: min(count, free_by_ray.get(node, 0)) for node, count in free.items()}
    return {node: max(0, count) for node, count in free.items()}
