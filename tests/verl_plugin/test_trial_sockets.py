from autotune.verl_plugin.trial_sockets import LONGEST_PATH, own_socket

HANDLE = "ipc:///tmp/rl-colocate-zmq-01000000-replica-0-rank-1.sock"


def test_two_trials_never_share_a_socket_and_both_ends_agree():
    first, second = (own_socket(HANDLE, key, "/tmp/t") for key in ("trial-1", "trial-2"))
    assert first != second
    assert first == own_socket(HANDLE, "trial-1", "/tmp/t")
    assert first.startswith("ipc:///tmp/t/weights-")
    assert first.endswith("-01000000-replica-0-rank-1.sock")


def test_ranks_and_replicas_stay_apart():
    assert own_socket(HANDLE, "k") != own_socket(HANDLE.replace("rank-1", "rank-0"), "k")


def test_a_deep_temporary_folder_does_not_break_the_path():
    path = own_socket(HANDLE, "k" * 200, "/tmp/" + "deep/" * 20).removeprefix("ipc://")
    assert path.startswith("/tmp/weights-")
    assert len(path) < LONGEST_PATH


def test_a_handle_that_is_not_verls_path_is_left_alone():
    assert own_socket("tcp://127.0.0.1:5555", "k") == "tcp://127.0.0.1:5555"
