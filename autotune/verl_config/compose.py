"""Composes the configuration of the installed verl, without importing verl.

verl's own Hydra tree is composed once per primary configuration and group selection and kept; each
call lays its values over a copy, so that strings, lists and mappings arrive exactly as they are.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import importlib.util
import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from autotune.errors import Fault, VerlConfigError
from autotune.job.model import VerlSection
from autotune.records import Value
from autotune.verl_config import tree as trees
from autotune.verl_config.free_form import is_free_form
from autotune.verl_config.parsing import parse_each_text_once
from autotune.verl_config.rendering import hydra_value
from autotune.verl_config.substitution import read_names, stands_alone, substituted

_WHERE = "verl.overrides"
_PACKAGE_CONFIGS = "pkg://verl.trainer.config"
_HYDRA_LOCK = threading.Lock()
_LAID_KEPT = 16
"""Composed configurations that others are made from; one takes about 100 kB."""


@dataclass(frozen=True)
class ResolvedConfig:
    """A whole verl configuration: verl's defaults with the user's values over them."""

    tree: dict[str, Value]
    """Nested, interpolations resolved; a mandatory value that nobody gave stays `???`."""
    flat: dict[str, Value]
    """The leaves of `tree` by dotted key; empty mappings and lists are leaves."""
    default_flat: dict[str, Value]
    """The same of the primary configuration with its group selections alone."""
    added: tuple[str, ...]
    """Keys given that the defaults lack (leading `+`, free-form sections)."""
    _interpolations: frozenset[str]

    def yaml(self) -> str:
        """The configuration as text that `--config-path FOLDER --config-name NAME` runs as it is."""
        return self._yaml

    @cached_property
    def _yaml(self) -> str:
        return trees.to_yaml(self.tree, self._interpolations)

    @property
    def missing(self) -> tuple[str, ...]:
        """Mandatory keys (`???`) that have no value yet."""
        return tuple(key for key, value in self.flat.items() if value == "???")


def verl_version() -> str:
    """The installed verl's version; VerlConfigError where there is none."""
    try:
        return importlib.metadata.version("verl")
    except importlib.metadata.PackageNotFoundError:
        raise VerlConfigError(_verl_is_missing()) from None


def config_folder() -> Path:
    """The folder of the installed verl's Hydra configuration; VerlConfigError where there is none."""
    spec = importlib.util.find_spec("verl")
    if spec is None or spec.origin is None:
        raise VerlConfigError(_verl_is_missing())
    folder = Path(spec.origin).parent / "trainer" / "config"
    if not folder.is_dir():
        raise VerlConfigError(
            Fault(where="verl", key="trainer/config", found=f"no folder {folder}", next_step="reinstall verl")
        )
    return folder


def compose(verl: VerlSection, overrides: Mapping[str, Value]) -> ResolvedConfig:
    """Lay the job's overrides, then `overrides`, over the defaults of the installed verl.

    Group selections (`model_engine`, `actor@actor_rollout_ref.actor`) and `hydra.*` keys go to Hydra;
    every other key is a value.

    Raises:
        VerlConfigError: no verl, a configuration that Hydra cannot compose, keys that verl does not
            have (with the nearest real ones) or values of the wrong kind; all faults at once.
    """
    merged = _without_plus({**_without_plus(verl.overrides), **_without_plus(overrides)})
    plus = {key.lstrip("+") for key in (*verl.overrides, *overrides) if key.startswith("+")}
    folder = Path(verl.config_path).expanduser().resolve() if verl.config_path else config_folder()
    name = verl.config_name.removesuffix(".yaml")
    groups = {folder, config_folder()}
    selections = {key: value for key, value in merged.items() if _is_for_hydra(key, value, groups)}
    values = {key: value for key, value in merged.items() if key not in selections}
    defaults = _defaults(folder, name, tuple(_selection(key, selections[key], plus) for key in selections))
    return _composed(defaults, values, plus)


def default_texts(config_name: str) -> dict[str, str]:
    """The interpolations of verl's own defaults by dotted key, as written: `${oc.select:...}`.

    Raises:
        VerlConfigError: as `compose`.
    """
    source = _defaults(config_folder(), config_name.removesuffix(".yaml"), ()).source
    return dict(trees.interpolated(source))


@dataclass(frozen=True)
class _Defaults:
    source: DictConfig
    flat: dict[str, Value]
    sections: frozenset[str]
    read: frozenset[str]
    """Last names of all that interpolations read."""
    laid: dict[str, ResolvedConfig] = field(default_factory=dict)
    """Configurations made before, by all that others depend on."""


def _composed(defaults: _Defaults, values: Mapping[str, Value], plus: set[str]) -> ResolvedConfig:
    """As `_lay_over`; values that nothing else depends on are put into a configuration made before."""
    read = defaults.read | read_names(text for text in _texts(list(values.values())) if "${" in text)
    sections = tuple(f"{key}." for key, value in values.items() if isinstance(value, dict))
    alone = {
        key: value
        for key, value in values.items()
        if key not in plus
        and _is_plain_leaf(key, defaults)
        and stands_alone(key, value, read)
        and not key.startswith(sections)
    }
    if any(trees.kind_faults(_WHERE, key, value, defaults.flat[key]) for key, value in alone.items()):
        return _lay_over(defaults, values, plus)
    rest = {key: value for key, value in values.items() if key not in alone}
    known = json.dumps([sorted(alone), rest, sorted(plus)], sort_keys=True)
    if known not in defaults.laid:
        try:
            base = _lay_over(defaults, {**rest, **{key: defaults.flat[key] for key in alone}}, plus)
        except VerlConfigError:
            return _lay_over(defaults, values, plus)  # all faults at once
        while len(defaults.laid) >= _LAID_KEPT:
            del defaults.laid[next(iter(defaults.laid))]
        defaults.laid[known] = base
    base = defaults.laid[known]
    tree, flat = base.tree, dict(base.flat)
    for key, value in alone.items():
        flat[key] = trees.as_verl_reads(value, defaults.flat[key])
        tree = substituted(tree, key, flat[key])
    return ResolvedConfig(tree, flat, dict(base.default_flat), base.added, base._interpolations)


def _is_plain_leaf(key: str, defaults: _Defaults) -> bool:
    """A single value of verl's own, inside sections that are no interpolation themselves."""
    parent, _, _ = key.rpartition(".")
    return (
        key in defaults.flat
        and not isinstance(defaults.flat[key], (list, dict))
        and not (isinstance(defaults.flat[key], str) and "${" in str(defaults.flat[key]))
        and parent in defaults.sections
    )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def _lay_over(defaults: _Defaults, values: Mapping[str, Value], plus: set[str]) -> ResolvedConfig:
    source: DictConfig = defaults.source.copy()
    OmegaConf.set_struct(source, False)
    faults: list[Fault] = []
    added: list[str] = []
    for given, value in values.items():
        for key, leaf in trees.spread(given, value, defaults.sections):
            known = key in defaults.flat or key in defaults.sections
            if not known and given not in plus and not is_free_form(key, defaults.flat):
                faults.append(_unknown_key(key, leaf, defaults))
                continue
            if not known:
                added.append(key)
            default = defaults.flat.get(key)
            faults += trees.kind_faults(_WHERE, key, leaf, default)
            try:
                OmegaConf.update(source, key, trees.as_verl_reads(leaf, default), merge=True)
            except OmegaConfBaseException as error:
                faults.append(_unusable(key, leaf, str(error)))
    if faults:
        raise VerlConfigError(faults)
    tree, unresolved = trees.resolve(source)
    broken = [_unusable(one.place, one.text, one.why) for one in unresolved if one.for_good]
    if broken:
        raise VerlConfigError(broken)
    interpolations = frozenset(one.place for one in unresolved)
    return ResolvedConfig(tree, trees.flatten(tree), dict(defaults.flat), tuple(added), interpolations)


@lru_cache(maxsize=16)
def _defaults(folder: Path, name: str, selections: tuple[str, ...]) -> _Defaults:
    _check_primary(folder, name)
    parse_each_text_once()
    arguments = [*selections, *_search_path(folder, name, selections)]
    with _HYDRA_LOCK:
        outer = GlobalHydra.instance().hydra
        GlobalHydra.instance().clear()
        try:
            with initialize_config_dir(str(folder), version_base=None, job_name="autotune"):
                source = hydra_compose(name, overrides=arguments)
        except (HydraException, OmegaConfBaseException) as error:
            found = " ".join(selections) or name
            raise VerlConfigError(
                Fault(
                    where=str(folder / f"{name}.yaml"),
                    found=found,
                    allowed="a configuration that Hydra composes",
                    next_step=f"Hydra says: {' '.join(str(error).split())}",
                )
            ) from error
        finally:
            GlobalHydra.instance().hydra = outer
    flat = trees.flatten(trees.resolve(source)[0])
    texts = (text for text in _texts(OmegaConf.to_container(source, resolve=False)) if "${" in text)
    return _Defaults(source, flat, frozenset(trees.sections(source)), read_names(texts))


def _check_primary(folder: Path, name: str) -> None:
    if (folder / f"{name}.yaml").is_file():
        return
    there = sorted(path.stem for path in folder.glob("*.yaml") if not path.stem.startswith("_"))
    raise VerlConfigError(
        Fault(
            where="verl.config_name",
            key=name,
            found=f"no {name}.yaml in {folder}",
            allowed=", ".join(there),
            next_step="name one of these, or set verl.config_path to the folder of your own",
        )
    )


def _search_path(folder: Path, name: str, selections: Sequence[str]) -> list[str]:
    """The override that lets a configuration outside verl use verl's; `pkg://` would import verl."""
    if folder == config_folder() or any(
        text.lstrip("+").startswith("hydra.searchpath=") for text in selections
    ):
        return []
    primary = OmegaConf.load(folder / f"{name}.yaml")
    own = OmegaConf.select(primary, "hydra.searchpath", default=None) or []
    verl = f"file://{config_folder()}"
    paths = [verl if str(path).rstrip("/") == _PACKAGE_CONFIGS else str(path) for path in own]
    if verl not in paths:
        paths.append(verl)
    return [f"hydra.searchpath={hydra_value(list(paths))}"]


def _is_for_hydra(key: str, value: Value, folders: Iterable[Path]) -> bool:
    if key.startswith("hydra.") or "@" in key or "/" in key:
        return True
    return "." not in key and isinstance(value, str) and any((folder / key).is_dir() for folder in folders)


def _selection(key: str, value: Value, plus: set[str]) -> str:
    return f"{'+' if key in plus else ''}{key}={hydra_value(value)}"


def _without_plus(overrides: Mapping[str, Value]) -> dict[str, Value]:
    return {key.lstrip("+"): value for key, value in overrides.items()}


def _unknown_key(key: str, value: Value, defaults: _Defaults) -> Fault:
    names = [*defaults.flat, *defaults.sections]
    same_end = [name for name in names if name.rsplit(".", 1)[-1] == key.rsplit(".", 1)[-1]]
    near = difflib.get_close_matches(key, same_end, n=2, cutoff=0.4)
    near += [name for name in difflib.get_close_matches(key, names, n=3, cutoff=0.75) if name not in near]
    return Fault(
        where=_WHERE,
        key=key,
        found=f"a key that verl {verl_version()} does not have (value {value!r})",
        allowed=", ".join(near[:3]) or "the keys of verl's trainer/config",
        next_step=f"correct the name, or write +{key} if verl's code really reads it",
    )


def _unusable(key: str, value: Value, why: str) -> Fault:
    return Fault(
        where=_WHERE,
        key=key,
        found=repr(value),
        allowed="a value that OmegaConf can place and resolve",
        next_step=f"OmegaConf says: {' '.join(why.split())}",
    )


def _verl_is_missing() -> Fault:
    return Fault(
        where="verl",
        found="no installed verl",
        allowed="verl 0.6.1 to 0.9.1",
        next_step="install autotune into the environment that runs verl, or start it from there",
    )
