#!/usr/bin/env python3
"""Print the licence texts of the crates that are compiled into svcfs, with those of bundled C code.

Usage: scripts/release/licences.py

Needs the sources of the crates, which a build has downloaded. Equal texts are printed once.
"""

import json
import pathlib
import platform
import re
import subprocess
import sys

FILE_NAME = re.compile(r"^(licen[cs]e|copying|notice|unlicense|copyright)", re.IGNORECASE)
TEXT_SUFFIXES = {"", ".md", ".txt", ".mit", ".apache", ".apache-2.0", ".bsd", ".zlib", ".unlicense"}


def read_metadata():
    """The packages and their dependencies, for this machine's platform."""
    target = f"{platform.machine()}-unknown-linux-gnu"
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def list_compiled(metadata):
    """The packages that svcfs uses; those of tests only are not among them."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting = [identity for identity, package in packages.items() if package["name"] == "svcfs"]
    reached = set()
    while waiting:
        identity = waiting.pop()
        if identity in reached:
            continue
        reached.add(identity)
        for dependency in nodes[identity]["deps"]:
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    external = [packages[identity] for identity in reached if packages[identity]["source"]]
    return sorted(external, key=lambda package: (package["name"], package["version"]))


def read_texts(package):
    """The licence files of a package, also of C libraries in folders of it."""
    folder = pathlib.Path(package["manifest_path"]).parent
    for path in sorted(folder.rglob("*")):
        is_text = FILE_NAME.match(path.name) and path.suffix.lower() in TEXT_SUFFIXES
        if is_text and path.is_file() and "tests" not in path.parts:
            yield path.read_text(encoding="utf-8", errors="replace").strip()


def main():
    if len(sys.argv) > 1:
        print(__doc__.strip())
        sys.exit(0 if sys.argv[1] in ("-h", "--help") else 2)
    texts = {}
    print("svcfs contains these crates, under these licences (SPDX):\n")
    for package in list_compiled(read_metadata()):
        name = f"{package['name']} {package['version']}"
        licence = package["license"] or f"see {package['license_file']}"
        print(f"  {name}: {licence}  {package['repository'] or ''}".rstrip())
        for text in read_texts(package):
            texts.setdefault(text, []).append(name)
    for text, names in texts.items():
        print("\n" + "=" * 100, ", ".join(dict.fromkeys(names)), "", text, sep="\n")


if __name__ == "__main__":
    main()
