#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""misuse_test.py TTQ COUNTER: `ttq record` where it cannot do what it is asked: one line, and the
status that env(1) and nohup(1) give: 127 not found, 126 cannot be run, 125 ttq itself failed."""

import os
import subprocess
import sys

import faults


def main():
    with faults.Ttq(sys.argv[1]) as ttq:
        counter, scratch = sys.argv[2], ttq.scratch
        home = ttq.environment["TTQ_HOME"]

        def expect(status, words, *arguments, **options):
            got, out, error = ttq.run("record", *arguments, **options)
            assert got == status and out == "", (arguments, got, out, error)
            assert error.startswith("ttq: ") and error.count("\n") == 1, (arguments, error)
            assert words in error, (arguments, error)
            # Nothing is left of what did not begin.
            assert not os.path.exists(home) or \
                not [n for n in os.listdir(home) if n.endswith(".ttq")], os.listdir(home)

        def make(name, content, mode):
            path = ttq.place(name)
            with open(path, "w", encoding="ascii") as file:
                file.write(content)
            os.chmod(path, mode)
            return path

        expect(127, "not found", "no-such-program-anywhere")
        expect(127, "No such file", "./no/such/program")
        expect(127, "not found", "")
        expect(126, "no permission", make("plain", "text", 0o644))
        expect(126, "not a program", scratch)
        expect(126, "x86-64", make("garbage", "\x7fELF\2\1\1" + "\0" * 200, 0o755))
        expect(126, "interpreter", make("script", "#!/no/such/interpreter\n", 0o755))
        expect(125, "no program", "-q")
        expect(125, "--on-full", "--on-full=perhaps", counter)
        expect(125, "not expected: --max-tme=5s", "--max-tme=5s", counter)
        expect(125, "0 is no number from 1 on", "--repeat", "0", counter)
        expect(125, "exists", "-o", scratch, counter)
        os.symlink(ttq.place("elsewhere"), ttq.place("link"))
        expect(125, "exists", "-o", ttq.place("link"), counter)
        assert not os.path.exists(ttq.place("elsewhere"))
        expect(125, "No such file", "-o", ttq.place("no/where"), counter)

        def environment(**changes):
            changed = {k: v for k, v in ttq.environment.items()
                       if k not in ("TTQ_HOME", "XDG_DATA_HOME", "HOME")}
            return dict(changed, **changes)

        expect(125, "HOME", counter, env=environment())
        expect(125, "cannot make", counter, env=environment(TTQ_HOME=ttq.place("plain") + "/x"))
        expect(125, "cannot make", counter, env=environment(TTQ_HOME="/proc/ttq"))
        # With -o no home is needed.
        stop = make("stop", "", 0o644)
        status, out, error = ttq.run("record", "-o", ttq.place("homeless"), counter, stop,
                                     env=environment(), cwd=scratch)
        assert status == 7 and out == "65536\n", (status, out, error)
        assert not [n for n in os.listdir(scratch) if "latest" in n]

        # Two at once do not take the same number.
        several = [ttq.start("record", counter, stop) for _ in range(4)]
        assert all("65536" in p.communicate(timeout=60)[0] and p.returncode == 7 for p in several)
        names = sorted(n for n in os.listdir(home) if n.endswith(".ttq"))
        assert names == [f"counter-{n}.ttq" for n in (1, 2, 3, 4)], names
        assert all(os.stat(home + "/" + n).st_mode & 0o777 == 0o700 for n in names)
        assert os.readlink(home + "/latest").startswith(home + "/counter-")
        subprocess.run(["rm", "-rf", home], check=True)

        if os.geteuid() != 0:
            faults.skip("what is left needs root")
        os.chmod(scratch, 0o755)
        nobody = {"user": "nobody", "group": "nogroup", "extra_groups": []}
        os.mkdir(ttq.place("locked"), 0o755)
        expect(125, "ermission denied", "-o", ttq.place("locked/a"), "/bin/true", **nobody)
        expect(125, "ermission denied", "/bin/true",
               env=environment(TTQ_HOME=ttq.place("locked/home")), **nobody)
        own = make("setuid", "", 0o755)
        subprocess.run(["cp", "/bin/true", own], check=True)
        os.chmod(own, 0o4755)
        expect(126, "set-user-id", own, **nobody)

        # A temporary directory that is not there is the program's affair.
        done = subprocess.run([ttq.path, "record", "-o", ttq.place("tmpdir"), "/bin/sh", "-c", "echo $TMPDIR"],
                              env={**ttq.environment, "TMPDIR": "/nonexistent"}, capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0 and done.stdout == "/nonexistent\n", done
        assert done.stderr.count("\n") == 1, done

        def mounted(mount, status, words, *options):
            script = f'{mount} && shift && exec "$@"'
            done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", "-", ttq.path,
                                   "record", *options, "-o", ttq.place("mounted"), counter, stop],
                                  env=ttq.environment, capture_output=True, text=True, check=False)
            if "unshare" in done.stderr or "mount:" in done.stderr:
                faults.skip(f"cannot mount: {done.stderr.strip()}")
            assert done.returncode == status and words in done.stderr, done
            assert done.stderr.count("\n") == 1, done
            subprocess.run(["rm", "-rf", ttq.place("mounted")], check=True)

        mounted("mount --bind /dev/null /usr/bin/valgrind.bin", 125, "install the valgrind package", "--engine=valgrind")
        # Without /dev/shm the rings go to /tmp.
        mounted("mount -t tmpfs -o ro tmpfs /dev/shm", 7, "recorded")
        mounted("mount -t tmpfs -o size=8m tmpfs /dev/shm", 7, "recorded")


if __name__ == "__main__":
    main()
