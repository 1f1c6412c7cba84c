#!/usr/bin/env python3
"""Draws docs/mount.svg, the picture in the README: a recorded session in a mounted tree.

Usage: scripts/picture.py [SVCFS] [PICTURE]

  SVCFS    The program (default: ~/.cache/svcfs/target/release/svcfs)
  PICTURE  File to write (default: docs/mount.svg)

Needs /dev/fuse, `attr` (getfattr) and `pip install rich`. The output in the picture is that of the program; none of it
is written by hand.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

from rich.console import Console
from rich.text import Text

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent

# Actors and their commands. `agent:tidy` is a program that was started with SVC_ACTOR=agent:tidy.
SESSION = [
    ("ann", "ls"),
    ("ann", "printf '# Tides\\n\\nThe moon pulls the sea: see [[coast]].\\n' > tides.md     # any program, any editor"),
    ("agent:tidy", "sed -i 's/the sea/the sea, twice a day/' tides.md              # an agent edits it, too"),
    ("ann", "ls .svc/history/tides.md/                              # each save is a version, and a file"),
    ("ann", "diff .svc/history/tides.md/0001-* tides.md"),
    ("ann", "getfattr --only-values -n user.svc.actor tides.md; echo"),
    ("ann", "ls .svc/search/'moon sea'/ .svc/backlinks/coast.md/    # a search is a folder"),
    ("ann", "ls .svc/at/@BEFORE/                      # the whole tree as it was"),
    ("ann", "cat .svc/lint/coast.md"),
    ("ann", "git -C ../notes log --format='%h %an: %s' -3           # and all of it is plain git"),
]

WIDTH = 118

PAGES = {
    "index.md": "# Notes\n\nSee [[coast]].\n",
    "coast.md": "# Coast\n\n### Cliffs\n\nWhere the sea ends.\n",
}


def main():
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__.strip())
        return
    arguments = dict(enumerate(sys.argv[1:]))
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", pathlib.Path.home() / ".cache/svcfs/target"))
    program = pathlib.Path(arguments.get(0, target / "release/svcfs"))
    picture = pathlib.Path(arguments.get(1, REPOSITORY / "docs/mount.svg"))
    with tempfile.TemporaryDirectory() as directory:
        folder = pathlib.Path(directory)
        root, mount = folder / "notes", folder / "notes.mnt"
        root.mkdir()
        mount.mkdir()
        subprocess.run([program, "init", "--root", root, "--template", "blank"], check=True, stdout=subprocess.DEVNULL)
        server = subprocess.Popen([program, "mount", mount, "--root", root], stdout=subprocess.PIPE, text=True)
        try:
            server.stdout.readline()
            for name, text in PAGES.items():
                (mount / name).write_text(text)
            draw(picture, mount, last_commit(program, root))
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(30)


def last_commit(program, root):
    """Waits until all pages are committed, and returns the newest commit."""
    pages = len(PAGES)
    while True:
        log = subprocess.run(["git", "-C", root, "log", "--format=%h"], check=True, capture_output=True, text=True)
        commits = log.stdout.split()
        if len(commits) > pages:
            return commits[0]


def draw(picture, mount, commit):
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"), force_terminal=True)
    for actor, command in SESSION:
        command = command.replace("@BEFORE", commit)
        typed, _, remark = command.partition("  # ")
        line = Text.assemble((f"{actor}:~/notes.mnt$ ", "bold green"), (typed.rstrip(), "bold"))
        if remark:
            line.append(" " * max(2, 90 - len(line.plain) - len(remark)))
            line.append(f"# {remark.strip()}", "dim")
        console.print(line)
        environment = {**os.environ, "SVC_ACTOR": actor, "LC_ALL": "C.UTF-8"}
        # List in columns, as on a terminal of this width.
        columns = f"ls() {{ command ls -C -w {WIDTH} \"$@\"; }}; "
        arguments = ["bash", "-c", columns + command]
        result = subprocess.run(arguments, cwd=mount, env=environment, capture_output=True, text=True)
        # `diff` returns 1 when the files differ.
        assert result.returncode in (0, 1), (command, result.stderr)
        if result.stdout:
            console.print(Text(result.stdout.rstrip("\n")))
    svg = console.export_svg(title="a mounted tree of pages", unique_id="mount")
    # No web fonts: the picture uses a font of the reader's system and loads nothing.
    picture.write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL))


main()
