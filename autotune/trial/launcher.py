"""The controller's hands: books slots of the Ray cluster and runs attempts on them."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tenacity import Retrying, stop_after_attempt, wait_fixed

from autotune.errors import Fault, ResourceError
from autotune.job.paths import AttemptPaths
from autotune.judge.event_json import event_from_json
from autotune.records import AttemptEnd, Event
from autotune.trial.orphans import end_orphan
from autotune.trial.request import AttemptRequest
from autotune.trial.runner import Runner
from autotune.trial.sessions import SessionPool, WarmSession
from autotune.trial.slots import SlotBooks, unheld

if TYPE_CHECKING:
    from autotune.job.model import ResourceSection

NAMESPACE = "autotune"
SLOT_RESOURCE = "autotune_slot"
"""Ray resource of a cluster that was started here: a CPU trial holds one for each of its ranks."""
POLL_LIMIT_S = 5.0
"""Longest wait for the runners' answers; a later one comes with the next poll."""
CONNECT_LIMIT_S = 10.0
CLOSE_LIMIT_S = 60.0
"""Longest wait for the attempts that `close` ends."""
_LOCAL_STARTS = 3
"""How often a cluster of our own is tried to be started."""
_OBJECT_STORE_BYTES = 100 * 2**20
"""Of a cluster started here: only small plain values pass through it."""


class Launcher(Protocol):
    """What the controller needs of whatever runs its attempts."""

    def slots(self, gpus: int = 1) -> int:
        """How many attempts that hold `gpus` each could be started now; on CPU, of so many ranks."""
        ...

    def largest(self) -> int:
        """The most GPUs (CPU: ranks) that an attempt can hold when nobody else is there."""
        ...

    def warm_keys(self) -> frozenset[str]:
        """Cold keys of the sessions that wait for a candidate."""
        ...

    def start(self, request: AttemptRequest) -> None:
        """Starts an attempt and returns at once; whatever comes of it is told by `poll`."""
        ...

    def poll(self) -> list[tuple[str, Event]]:
        """What happened since the last call, by attempt id. Each attempt's last event is its `AttemptEnd`."""
        ...

    def end(self, attempt_id: str, reason: str, spare_s: float | None = None) -> None:
        """Asks an attempt to end; its `AttemptEnd` comes by `poll`. Unknown or ended ids are no fault.

        `spare_s`: how long it may take to end between two steps, so that its warm session can go on;
        None ends the processes at once.
        """
        ...

    def close(self) -> None:
        """Ends every attempt, waits for it, and gives the cluster back. May be called again."""
        ...


@dataclass
class _Attempt:
    """An attempt that this launcher runs."""

    request: AttemptRequest
    runner: Any
    """Handle of the Ray actor."""
    started: Any
    """Ray reference of the answer to `start`; None once it came."""
    polled: Any = None
    """Ray reference of a poll that is still on its way."""
    asked_to_end: bool = False
    session: WarmSession | None = None
    """The one it runs in; None for a process of its own."""
    node: str = ""
    """See `SlotBooks.free`."""


class RayLauncher:
    """Runs each attempt under a Ray actor that holds its GPUs, or a slot where there are none."""

    def __init__(self, resources: ResourceSection, environment: Mapping[str, str] | None = None) -> None:
        """Joins the cluster of the job or of RAY_ADDRESS, or starts a local one.

        `environment`: variables for every attempt, over its node's own, that no file may hold.

        Raises:
            ResourceError: The cluster does not answer, or no node has the GPUs of one trial.
        """
        import ray  # a second of imports that no other command should pay for

        self._ray = ray
        self._resources = resources
        self._environment = dict(environment or {})
        self._attempts: dict[str, _Attempt] = {}
        self._sessions = SessionPool()
        self._joined = False
        self._connect()
        try:
            self._capacity = self._devices_by_node()
        except ResourceError:
            self._disconnect()
            raise
        self._runner_class = ray.remote(Runner)

    def slots(self, gpus: int = 1) -> int:
        """See `Launcher.slots`: by this launcher's own books, and on GPUs by what others left free.

        An idle session's devices are free: it takes the next candidate or makes room for it.
        """
        return self._books().slots(gpus)

    def largest(self) -> int:
        """See `Launcher.largest`. An attempt lives on one node."""
        return max(self._capacity.values())

    def warm_keys(self) -> frozenset[str]:
        """See `Launcher.warm_keys`."""
        return self._sessions.keys()

    def start(self, request: AttemptRequest) -> None:
        """See `Launcher.start`. Takes the seconds that an idle session needs to make room, if one has to."""
        session = self._sessions.take(request.session_key)
        if session is None:
            node = self._make_room(request.gpus)
            runner = self._runner_class.options(
                name=f"runner-{request.attempt_id}", namespace=NAMESPACE, **self._held(request.gpus, node)
            ).remote()
            if request.session_key is not None:
                session = WarmSession.for_first(request, runner, node)
        if session is not None:
            runner, node = session.runner, session.node
            request = replace(request, session=session.next_place())
        started = runner.start.remote(request.to_json(), self._environment)
        self._attempts[request.attempt_id] = _Attempt(request, runner, started, session=session, node=node)

    def poll(self) -> list[tuple[str, Event]]:
        """See `Launcher.poll`. A dead runner gives a lost `AttemptEnd` after its processes were ended."""
        events: list[tuple[str, Event]] = []
        for attempt_id, answer in self._answers().items():
            events += ((attempt_id, event) for event in answer)
            if answer and isinstance(answer[-1], AttemptEnd):
                self._release(attempt_id, answer[-1])
        return events

    def end(self, attempt_id: str, reason: str, spare_s: float | None = None) -> None:
        """See `Launcher.end`."""
        attempt = self._attempts.get(attempt_id)
        if attempt is None or attempt.asked_to_end:
            return
        attempt.asked_to_end = True
        if attempt.started is not None and not self._ray.wait([attempt.started], timeout=0)[0]:
            self._ray.kill(attempt.runner)  # it may wait for its devices for ever
        else:
            attempt.runner.end.remote(reason, spare_s)

    def close(self) -> None:
        """See `Launcher.close`. Shuts Ray down only where it was started here."""
        for attempt_id in tuple(self._attempts):
            self.end(attempt_id, "closing")
        deadline = time.monotonic() + CLOSE_LIMIT_S
        while self._attempts and time.monotonic() < deadline:
            self.poll()
            time.sleep(0.05)
        for attempt_id in tuple(self._attempts):
            self._release(attempt_id, None)  # its supervisor ends the rest on its own
        while self._sessions.idle:
            self._retire(self._sessions.oldest())
        self._disconnect()

    # The cluster

    def _connect(self) -> None:
        address = self._resources.ray_address or os.environ.get("RAY_ADDRESS")
        options: dict[str, Any] = {
            "namespace": NAMESPACE,
            "logging_level": "ERROR",
            "log_to_driver": False,
        }
        if self._ray.is_initialized():
            return
        if address:
            options["address"] = address
        else:
            options |= {
                "address": "local",
                "include_dashboard": False,
                "object_store_memory": _OBJECT_STORE_BYTES,
                "num_cpus": 1,  # runners hold none; this many idle workers are started ahead
                "_system_config": {"worker_niceness": 0},  # verl inherits it
            }
            if self._resources.device == "cpu":
                options |= {"num_gpus": 0, "resources": {SLOT_RESOURCE: self._cpu_ranks()}}
        try:
            if address:
                _answers(address)
                self._ray.init(**options)
            else:
                self._start_local(options)
        except Exception as error:  # Ray raises a bare Exception where its own node is late
            raise ResourceError(
                Fault(
                    where="Ray",
                    key="resources.ray_address",
                    found=f"{address or 'a local cluster'}: {error}",
                    allowed="the address of a running Ray cluster, or none for a local one",
                    next_step="check it with `ray status`, or unset it and RAY_ADDRESS; "
                    "a local one starts late on a machine that is busy: run the same command again",
                )
            ) from error
        self._joined = True

    def _start_local(self, options: dict[str, Any]) -> None:
        """Starts a cluster here; once more where its processes were late, as on a busy machine."""
        for attempt in Retrying(stop=stop_after_attempt(_LOCAL_STARTS), wait=wait_fixed(2.0), reraise=True):
            with attempt:
                try:
                    self._ray.init(**options)
                except BaseException:
                    self._ray.shutdown()
                    raise

    def _disconnect(self) -> None:
        """Leaves the cluster; one that was started here ends with that. A caller's own Ray stays."""
        if self._joined:
            self._joined = False
            self._ray.shutdown()

    def _devices_by_node(self) -> dict[str, int]:
        """Devices of each node that has any, when nobody else uses the cluster.

        Raises:
            ResourceError: No node has the GPUs of a trial of the job's own size.
        """
        if self._resources.device == "cpu":
            return {"": self._cpu_ranks()}
        nodes = {node["NodeID"]: int(node["Resources"].get("GPU", 0)) for node in self._nodes()}
        most = max(nodes.values(), default=0)
        if most < self._resources.gpus_per_trial:
            raise ResourceError(
                Fault(
                    where="Ray cluster",
                    key="resources.gpus_per_trial",
                    found=f"{self._resources.gpus_per_trial} GPUs a trial; the largest node has {most}",
                    allowed=f"at most {most}" if most else "device: cpu on a machine without GPUs",
                    next_step="lower resources.gpus_per_trial, name another cluster in "
                    "resources.ray_address, or set resources.device: cpu",
                )
            )
        return {node: gpus for node, gpus in nodes.items() if gpus > 0}

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"]]

    def _cpu_ranks(self) -> int:
        """Data-parallel ranks that run on this machine's CPU at once."""
        return (self._resources.trials_at_once or 1) * self._resources.gpus_per_trial

    def _books(self) -> SlotBooks:
        """What is held now, by this launcher and by others."""
        is_cpu = self._resources.device == "cpu"
        held = [(attempt.node, attempt.request.gpus) for attempt in self._attempts.values()]
        held += [(session.node, session.gpus) for session in self._sessions.idle]
        return SlotBooks(
            free=unheld(self._capacity, held, None if is_cpu else self._free_by_node()),
            idle=tuple(self._sessions.idle),
            running=len(self._attempts),
            most=self._resources.trials_at_once or (1 if is_cpu else None),
        )

    def _free_by_node(self) -> dict[str, int]:
        # Ray has no public call for it; verl relies on this one too (single_controller/ray/base.py:229).
        from ray._private.state import available_resources_per_node

        return {
            node: int(resources.get("GPU", 0)) for node, resources in available_resources_per_node().items()
        }

    def _held(self, gpus: int, node: str) -> dict[str, Any]:
        """What the actor of one attempt holds. No CPUs: the runner itself only watches."""
        held: dict[str, Any] = {"num_cpus": 0, "max_restarts": 0}
        if self._resources.device == "gpu":
            held["num_gpus"] = gpus
        elif SLOT_RESOURCE in self._ray.cluster_resources():
            held["resources"] = {SLOT_RESOURCE: gpus}
        if node and len(self._capacity) > 1:  # Ray would spread what the books pack
            strategy = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
            held["scheduling_strategy"] = strategy(node_id=node, soft=False)
        return held

    # The attempts

    def _answers(self) -> dict[str, list[Event]]:
        """What each runner has to say, within `POLL_LIMIT_S` for all of them together."""
        waiting: dict[str, Any] = {}
        for attempt_id, attempt in self._attempts.items():
            if attempt.started is None and attempt.polled is None:
                attempt.polled = attempt.runner.poll.remote()
            waiting[attempt_id] = attempt.started if attempt.started is not None else attempt.polled
        if not waiting:
            return {}
        polls = [attempt.polled for attempt in self._attempts.values() if attempt.polled is not None]
        if polls:
            self._ray.wait(polls, num_returns=len(polls), timeout=POLL_LIMIT_S)
        ready, _ = self._ray.wait(list(waiting.values()), num_returns=len(waiting), timeout=0)
        return {
            attempt_id: self._answer(self._attempts[attempt_id])
            for attempt_id, reference in waiting.items()
            if reference in ready
        }

    def _answer(self, attempt: _Attempt) -> list[Event]:
        """The answer that has come; the end of the attempt where its runner died or could not start it."""
        starting = attempt.started is not None
        reference = attempt.started if starting else attempt.polled
        attempt.started = attempt.polled = None
        try:
            answer = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            return [self._lost(attempt, error)]
        return [] if starting else [event_from_json(event) for event in answer]

    def _lost(self, attempt: _Attempt, error: Exception) -> AttemptEnd:
        end = replace(end_orphan(AttemptPaths(Path(attempt.request.folder))), session_over=True)
        if attempt.asked_to_end:
            return replace(end, asked=True, lost=False)
        return replace(end, tail=(*end.tail, f"runner: {error}"), lost=True)

    def _release(self, attempt_id: str, end: AttemptEnd | None) -> None:
        """Gives the attempt's slot back; its session waits for the next candidate if it may."""
        attempt = self._attempts.pop(attempt_id)
        if attempt.session is not None and end is not None and end.session:
            self._sessions.give_back(attempt.session)
            if end.session_over:
                self._retire(attempt.session)
            return
        with suppress(self._ray.exceptions.RayError):
            self._ray.kill(attempt.runner)

    def _make_room(self, gpus: int) -> str:
        """Ends the idle sessions that are in the way; the node for a new process, `` where Ray finds one."""
        place = self._books().place(gpus)
        if place is None:
            return ""  # others hold what it needs: its runner waits for them inside Ray
        for session in place.retired:
            self._retire(session)
        return place.node

    def _retire(self, session: WarmSession) -> None:
        self._sessions.forget(session)
        with suppress(self._ray.exceptions.RayError):
            self._ray.get(session.runner.retire.remote(), timeout=CLOSE_LIMIT_S)
        with suppress(self._ray.exceptions.RayError):
            self._ray.kill(session.runner)


def _answers(address: str) -> None:
    """Returns where something listens on `host:port`; Ray itself would try for minutes.

    Raises:
        OSError: Nothing listens there.
    """
    host, separator, port = address.rpartition(":")
    if separator and "/" not in host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=CONNECT_LIMIT_S).close()
