#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""full_disk_test.py TTQ COUNTER: recording onto disks too small for it.

--on-full=stop ends the program, --on-full=detach lets it run to its end and gives its status. Both
say so in one line, with what the recording holds, which stays. Also a full place for the rings."""

import contextlib
import glob
import json
import os
import re
import subprocess
import sys

import faults

KIB_SIZES = (100, 700, 800, 1300, 3000, 16 << 10, 24 << 10, 30 << 10, 40 << 10)


@contextlib.contextmanager
def small_disk(at, kib):
    os.makedirs(at, exist_ok=True)
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", at],
                           capture_output=True, text=True, check=False)
    if mount.returncode != 0:
        faults.skip(f"cannot mount a tmpfs: {mount.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", at], check=True)


def fill_up(ttq, counter, kib, on_full):
    disk, stop = ttq.place("disk"), ttq.place("stop")
    directory = disk + "/a"
    with small_disk(disk, kib):
        # Detached, it ends by itself; stopped, it would not.
        bound = ["9000000"] if on_full == "detach" else []
        status, out, error = ttq.run("record", "--index=now", "--free-space=0", f"--on-full={on_full}", "-o", directory, counter,
                                     stop, *bound, timeout=120)
        lines = [line for line in error.splitlines() if "disk is full" in line]
        assert len(lines) == 1 and lines[0].startswith("ttq: "), error
        if not os.path.exists(directory):  # not even an empty store has room
            assert status == 125 and out == "", (status, out)
            return None
        if on_full == "detach":
            assert status == 7 and out == "9000000\n", (status, out, error)
            assert "went on unrecorded" in error or "had ended by then" in error, error
        else:
            assert status == 125 and out == "", (status, out, error)
            assert "the program was ended" in error, error
        info, value = ttq.expect_readable(directory)
        assert info["finished"], info
        held = re.search(r"the recording holds its first ([\d.]+)( M| G)? instructions$", lines[0])
        assert held, lines
        factor = {None: 1, " M": 1e6, " G": 1e9}[held[2]]
        assert abs(float(held[1]) * factor - info["processes"][0]["instructions"]) < factor / 10, (lines, info)
        assert "disk is full" in info["processes"][0]["note"], info
        assert not glob.glob(directory + "/reserve"), "the reserve is still there"
        return value


def main():
    with faults.Ttq(sys.argv[1]) as ttq:
        counter = sys.argv[2]
        for number, kib in enumerate(KIB_SIZES):
            for on_full in ("stop", "detach") if number % 3 == 2 else ("stop",):
                value = fill_up(ttq, counter, kib, on_full)
                print(f"{kib} KiB, {on_full}: counted to {value}")
        assert value > 0, "no disk was large enough to test anything"

        # Rings: where one place is full the next is taken; with none, one line and 125.
        shm = ttq.place("shm")
        mounts = ttq.place("mounts")
        with open(mounts, "w", encoding="ascii") as file:
            file.write('mount -t tmpfs -o size=1m tmpfs "$1" && shift && exec "$@"\n')
        inside = ["unshare", "--mount", "sh", mounts]
        record = [ttq.path, "record", "--free-space=0", "-o", shm, counter, ttq.place("stop"), "100000"]
        done = subprocess.run([*inside, "/dev/shm", *record], env=ttq.environment,
                              capture_output=True, text=True, check=False)
        assert done.returncode == 7 and done.stdout == "100000\n", done
        ttq.expect_readable(shm, complete=True)
        done = subprocess.run([*inside, "/dev/shm", *inside, "/tmp", "sh", "-c", 'exec "$@"', "sh",
                               *record[:4], "/var/tmp/ttq-faults", *record[5:]],
                              env=dict(ttq.environment, TMPDIR="/dev/shm"), cwd="/",
                              capture_output=True, text=True, check=False)
        assert done.returncode in (125, 127), done  # 127: all of this lies in /tmp
        if done.returncode == 125:
            assert done.stderr.startswith("ttq: no place for the rings: ") and \
                done.stderr.count("\n") == 1, done.stderr
            assert not os.path.exists("/var/tmp/ttq-faults")

        # A ring directory that fills up while programs run: smaller rings, then none, never SIGBUS.
        with open(mounts, "w", encoding="ascii") as file:
            file.write('mount -t tmpfs -o size=24m tmpfs /dev/shm && exec "$@"\n')
        shell = ('for i in 1 2 3 4 5 6 7 8; do "$0" "$1" 300000 & done; wait; echo done')
        done = subprocess.run([*inside, ttq.path, "record", "--free-space=0", "-o", ttq.place("many"), "sh", "-c",
                               shell, counter, ttq.place("stop")], env=ttq.environment,
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0 and done.stdout == "300000\n" * 8 + "done\n", done
        status, _, error = ttq.run("check", ttq.place("many"))
        assert status == 0, error

        # A child without a ring is not recorded, nor is what it forks when there is room again. All else is.
        shell = ('while printf "%4194304s" x; do :; done > /dev/shm/fill 2> /dev/null; '
                 '( : > /dev/shm/fill; ( exit 3 ); echo $? ); ( exit 4 ); echo $?')
        for index, known in (("now", [(True, None), (True, 1)]), ("none", [(False, None)])):
            lost = ttq.place(f"lost-{index}")
            done = subprocess.run([*inside, ttq.path, "record", f"--index={index}", "--free-space=0", "--block-size=1", "-o",
                                   lost, "sh", "-c", shell], env=ttq.environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0 and done.stdout == "3\n4\n", done
            info = json.loads(ttq.run("info", "-f", "json", lost)[1])
            assert [(p["complete"], p["parent"]) for p in info["processes"]] == known, info
            # Of inputs a block needs more as it goes on: where there is none, the process is recorded no further.
            assert index == "now" or "no memory for its ring" in info["processes"][0]["note"], info
            assert index == "now" or "no memory for its ring" in done.stderr, done


if __name__ == "__main__":
    main()
