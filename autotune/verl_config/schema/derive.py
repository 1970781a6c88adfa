"""Writes `released.json.gz`: the keys and defaults of released verl versions, from their wheels.

    python -m autotune.verl_config.schema.derive 0.6.1 0.7.0 0.7.1 0.8.0 0.9.0 0.9.1

Each wheel is downloaded without its dependencies and read as an archive; nothing of it runs. verl
carries its composed configurations itself (`trainer/config/_generated_*.yaml`). Every version is
stored as its difference from the one before.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from autotune.verl_config.schema.released import DATA, release_order
from autotune.verl_config.tree import flatten

_GENERATED = "verl/trainer/config/_generated_"


def main(versions: Sequence[str]) -> None:
    """Derives the named versions and replaces the stored file."""
    with tempfile.TemporaryDirectory() as folder:
        flats = {
            version: configurations(download(version, Path(folder)))
            for version in sorted(versions, key=release_order)
        }
    text = json.dumps(as_differences(flats), separators=(",", ":"), sort_keys=True)
    # No time stamp: the same wheels give the same bytes.
    DATA.write_bytes(gzip.compress(text.encode(), mtime=0))
    sys.stdout.write(f"{DATA.name}: {', '.join(flats)}; {DATA.stat().st_size} bytes\n")


def download(version: str, folder: Path) -> Path:
    """The wheel of this version, fetched by pip."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    subprocess.run([*command, "--dest", str(folder), f"verl=={version}"], check=True)
    return next(folder.glob(f"verl-{version}-*.whl"))


def configurations(wheel: Path) -> dict[str, dict[str, Any]]:
    """Flat keys with defaults of each primary configuration in a wheel, interpolations as text."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith(_GENERATED)]
        return {
            PurePosixPath(name).stem.removeprefix("_generated_"): flatten(yaml.safe_load(archive.read(name)))
            for name in names
        }


def as_differences(flats: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """Each version as what it sets and what it drops, by configuration, against the version before."""
    before: Mapping[str, Mapping[str, Any]] = {}
    stored: dict[str, Any] = {}
    for version, configs in flats.items():
        stored[version] = {}
        for name, flat in configs.items():
            old = before.get(name, {})
            changed = {
                key: value for key, value in flat.items() if key not in old or not _same(old[key], value)
            }
            gone = sorted(key for key in old if key not in flat)
            stored[version][name] = {"set": changed, "drop": gone}
        before = configs
    return stored


def _same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and bool(left == right)


if __name__ == "__main__":
    main(sys.argv[1:])
