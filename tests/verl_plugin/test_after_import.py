import importlib
import importlib.util
import sys

import pytest

from autotune.verl_plugin.after_import import after_import


@pytest.fixture
def late_module(tmp_path, monkeypatch):
    (tmp_path / "late_module.py").write_text("answer = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "late_module"
    sys.modules.pop("late_module", None)


def add_one(module):
    module.answer += 1


def test_a_patch_waits_for_the_first_import(late_module):
    after_import(late_module, add_one)
    after_import(late_module, add_one)
    assert late_module not in sys.modules
    assert importlib.import_module(late_module).answer == 3


def test_a_look_at_the_spec_does_not_use_up_the_patch(late_module):
    after_import(late_module, add_one)
    assert importlib.util.find_spec(late_module) is not None
    assert importlib.import_module(late_module).answer == 2


def test_an_imported_module_is_patched_at_once(late_module):
    module = importlib.import_module(late_module)
    after_import(late_module, add_one)
    assert module.answer == 2


def test_a_module_that_does_not_exist_still_does_not():
    after_import("no_such_module_anywhere", add_one)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_module_anywhere")


def test_the_module_keeps_its_own_loader(late_module):
    after_import(late_module, add_one)
    module = importlib.import_module(late_module)
    assert module.__spec__.loader.get_source(late_module) == "answer = 1\n"
