"""Patches a module right after its first import, and never causes that import.

verl's trainer and rollout modules take seconds to import, and each of its processes needs others of
them. So a patch waits until the process itself imports the module.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Patch = Callable[[Any], None]
"""Changes attributes of the module it is given, so the module is no `ModuleType` to mypy."""


def after_import(module_name: str, patch: Patch) -> None:
    """Call `patch(module)` once: now if the module is imported already, else right after its import."""
    module = sys.modules.get(module_name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        patch(module)
        return
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    _FINDER.patches.setdefault(module_name, []).append(patch)


class _PatchingFinder(MetaPathFinder):
    """Finds only the modules that wait for a patch, with the help of the finders behind it."""

    def __init__(self) -> None:
        self.patches: dict[str, list[Patch]] = {}
        self._asked: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.patches or fullname in self._asked:
            return None
        self._asked.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asked.discard(fullname)
        if spec is None or spec.loader is None:
            return None
        spec.loader = _PatchingLoader(spec.loader, self.patches)
        return spec


class _PatchingLoader(Loader):
    """The module's own loader, followed by the patches that wait for it."""

    def __init__(self, loader: Loader, patches: dict[str, list[Patch]]) -> None:
        self._loader = loader
        self._patches = patches

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # The module keeps its own loader: inspect and pkgutil ask it for sources.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        for patch in self._patches.pop(module.__name__, []):
            patch(module)


_FINDER = _PatchingFinder()
