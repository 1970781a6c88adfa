"""A stand-in for verl at the process boundary, and what tests ask about its processes."""

import time

from autotune.trial import process_tree

FAKE_VERL = '''
"""Does what its configuration (JSON, which is YAML) says, as verl and its Ray would."""
import json, os, signal, sys, time
from multiprocessing import shared_memory, resource_tracker

folder = sys.argv[sys.argv.index("--config-path") + 1]
plan = json.load(open(os.path.join(folder, "config.yaml")))

def note(name):
    with open(os.path.join(folder, "pids"), "ab", buffering=0) as pids:
        pids.write(f"{name} {os.getpid()}\\n".encode())

def sleep_for_ever():
    while True:
        time.sleep(60)

def plain():
    note("plain")
    sleep_for_ever()

def setsid():
    os.setsid()
    note("setsid")
    sleep_for_ever()

def deaf():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.setsid()
    note("deaf")
    sleep_for_ever()

def daemon():
    os.setsid()
    if os.fork():
        os._exit(0)
    note("daemon")
    sleep_for_ever()

def breeder():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    note("breeder")
    while True:
        if os.fork() == 0:
            os.setsid()
            note("bred")
            sleep_for_ever()
        time.sleep(0.05)

if plan.get("deaf"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
note("verl")
print("ray init kwargs: started", flush=True)
for name in plan.get("children", ()):
    if os.fork() == 0:
        globals()[name]()
while len(open(os.path.join(folder, "pids")).readlines()) <= len(plan.get("children", ())):
    time.sleep(0.01)
if plan.get("shared_memory"):
    block = shared_memory.SharedMemory(plan["shared_memory"], create=True, size=4096)
    resource_tracker.unregister(block._name, "shared_memory")
for line in plan.get("console", ()):
    print(line, flush=True)
for name, lines in (("VERL_FILE_LOGGER_PATH", "metrics"), ("AUTOTUNE_PHASES_PATH", "phases")):
    with open(os.environ[name], "w") as file:
        for values in plan.get(lines, ()):
            file.write(json.dumps(values) + "\\n")
with open(os.path.join(folder, "variables"), "w") as file:
    json.dump({name: os.environ.get(name) for name in plan.get("variables", ())}, file)
open(os.path.join(folder, "ready"), "w").close()
if plan.get("exit") is None:
    sleep_for_ever()
time.sleep(plan.get("exit_after_s", 0))
sys.stdout.flush()
os._exit(plan["exit"])
'''


def wait_for(condition, limit_s=40.0):
    """Returns the first true value of `condition`; fails after `limit_s`."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"still not so after {limit_s} s")


def noted_pids(paths):
    """The pids that the stand-in and its children wrote down, by name."""
    pids = paths.root / "pids"
    lines = pids.read_text().splitlines() if pids.exists() else []
    return [(name, int(pid)) for name, pid in (line.split() for line in lines)]


def living(paths):
    """Those of them that still live."""
    rows = [(name, process_tree.find_process(pid)) for name, pid in noted_pids(paths)]
    return [name for name, row in rows if row is not None and row.alive]


RAY_ENTRY = '''
"""A private Ray as verl starts it: by the command line's overrides; starts actors, says where it is."""
import json, os, sys, time
import ray

init = {}
for argument in sys.argv:
    if argument.startswith("++ray_kwargs.ray_init."):
        key, value = argument.removeprefix("++ray_kwargs.ray_init.").split("=", 1)
        init[key] = {"False": False}.get(value, int(value) if value.isdigit() else value)
ray.init(**init)

@ray.remote(num_gpus=0.5)
class Worker:
    def where(self):
        return ray.get_runtime_context().get_job_id(), os.getpid()

workers = [Worker.remote() for _ in range(2)]
places = ray.get([worker.where.remote() for worker in workers])
folder = sys.argv[sys.argv.index("--config-path") + 1]
with open(os.path.join(folder, "pids"), "w") as pids:
    pids.writelines(f"worker {pid}\\n" for _, pid in places)
    pids.write(f"verl {os.getpid()}\\n")
with open(os.path.join(folder, "cluster"), "w") as cluster:
    json.dump({"address": ray.get_runtime_context().gcs_address, "gpus": ray.cluster_resources()["GPU"],
               "cpus": ray.cluster_resources()["CPU"], "temp": os.environ["TMPDIR"]}, cluster)
open(os.path.join(folder, "ready"), "w").close()
time.sleep(600)
'''

FAKE_SESSION = '''
"""A warm session's process: serves its inbox by the real wire; each candidate's configuration is its plan."""
import json, os, sys, time
from pathlib import Path
from autotune.verl_plugin.warm import wire

session = Path(os.environ[wire.SESSION_FOLDER])
(session / "start").mkdir(exist_ok=True)
with open(session / "pids", "w") as pids:
    pids.write(f"verl {os.getpid()}\\n")
print("the session starts", flush=True)
number = 0
while True:
    attempt = wire.handed_over(session, number)
    if attempt is None:
        time.sleep(0.01)
        continue
    number += 1
    plan = json.load(open(attempt / wire.CONFIG_FILE))
    wire.write_mark(attempt, wire.SessionMark("preparing"))
    for line in plan.get("console", ()):
        print(line, flush=True)
    if plan.get("dies") == "preparing":
        os._exit(1)
    wire.write_mark(attempt, wire.SessionMark("running", 0.5))
    with open(attempt / wire.METRICS_FILE, "w") as file:
        file.writelines(json.dumps(row) + "\\n" for row in plan.get("metrics", ()))
    if plan.get("dies") == "running":
        os._exit(1)
    state = "completed"
    while plan.get("endless"):
        if plan["endless"] == "listening" and wire.is_asked_to_stop(attempt):
            state = "stopped"
            break
        time.sleep(0.01)
    wire.write_mark(attempt, wire.SessionMark(state, 0.5))
'''
