# SPDX-License-Identifier: MIT
"""Plays the examples of a page of docs/: each command of its ```sh-example blocks, and of what it printed each
line that the page shows, where `…` stands for anything."""

import re
import subprocess


def differences(page, environment, folder):
    """What the page shows and the commands did not print, one text each. One shell runs all of them, in `folder`."""
    with open(page, encoding="utf-8") as file:
        blocks = re.findall(r"^```sh-example\n(.*?)^```$", file.read(), re.M | re.S)
    if not blocks:
        return [f"{page} has no examples"]
    steps = [(step.split("\n")[0], step.split("\n")[1:])
             for block in blocks for step in re.split(r"^\$ ", block, flags=re.M)[1:]]
    # What a step printed stands between marks.
    script = "".join(f"{command}\nsleep 0; echo '=== {i}'\n" for i, (command, _) in enumerate(steps))
    p = subprocess.run(["bash", "-c", script], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       stdin=subprocess.DEVNULL, text=True, timeout=500, env=environment)
    wrong = []
    outputs = re.split(r"^=== \d+\n", p.stdout, flags=re.M)
    for (command, expected), output in zip(steps, outputs):
        at = 0
        for line in filter(None, expected):
            found = re.compile(".*".join(re.escape(part) for part in line.split("…"))).search(output, at)
            if not found:
                wrong.append(f"{page}: {command}: no line like {line!r} in\n{output}")
                break
            at = found.end()
    return wrong
