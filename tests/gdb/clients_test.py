# SPDX-License-Identifier: MIT
"""Clients of `ttq gdb --port` that hang up in mid-packet, send garbage, stay silent, or come two at a
time; recordings that have no crash, are cut off, are not there. The server must go on serving.

    clients_test.py TTQ PROGRAMS [SECONDS]      SECONDS: of random packets (default: 4)
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from gdb_client import Server  # noqa: E402

TTQ, PROGRAMS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
SECONDS = float(sys.argv[3]) if len(sys.argv) > 3 else 4
failures = 0


def check(name, fine, detail=""):
    global failures
    if fine:
        print("ok", name)
    else:
        failures += 1
        print("FAILED", name, str(detail)[-2000:])


def served(server):
    """A client that is served; the one before may still be on its way out. None: no more."""
    for _ in range(200):
        try:
            client = server.connect()
            if (client.ask("?") or "").startswith("T"):
                return client
            client.close()
        except OSError:
            pass
        time.sleep(0.05)
    return None


def serves(server):
    client = served(server)
    if client:
        client.close()
    return client is not None


def misbehaviour(server):
    client = served(server)
    client.socket.sendall(b"$qSupp")
    client.close()
    check("hung up in mid-packet", serves(server))
    client = served(server)
    client.socket.sendall(bytes(range(256)) * 64 + b"$?#00$?#zz")
    client.close()
    check("garbage", serves(server))
    client = served(server)
    try:
        client.socket.sendall(b"$" + b"m" * 400000)
        check("an endless packet ends the connection", client.receive() is None)
    except OSError:
        check("an endless packet ends the connection", True)
    client.close()
    check("… and nothing else", serves(server))
    time.sleep(0.5)
    silent = server.connect()
    check("a silent client makes room", serves(server))
    silent.close()
    first = served(server)
    second = server.connect()
    check("second client is turned away", second.receive() is None)
    check("first client stays", (first.ask("?") or "").startswith("T"))
    first.buffer = b""
    first.socket.sendall(b"$?#00")
    check("damage is told", b"-" in first.socket.recv(1))
    first.send("vCont;c")
    first.close()
    check("hung up while the answer was made", serves(server))
    client = served(server)
    client.socket.sendall(b"\x03")
    check("an interrupt of nothing", (client.ask("?") or "").startswith("T"))
    client.close()


PIECES = ["?", "g", "G00", "p", "P1=00", "m", "M0,1:00", "x0,", "Hg", "Hc-1", "T", "qSupported:multiprocess+",
          "qXfer:", "features:read:", "target.xml:", "auxv:read::", "threads:read::", "siginfo:read::", "exec-file:read::",
          "qRcmd,", "qSearch:memory:", "qGetTLSAddr:", "qMemoryRegionInfo:", "vCont;", "s", "c", "r0,ffff", "bs", "bc",
          "Z0,", "Z1,", "Z2,", "z2,", "Z4,", "QPassSignals:", "vFile:open:", "vFile:pread:", "vFile:fstat:", "vFile:close:", "vFile:readlink:",
          "qThreadExtraInfo,", "2f", "p1.1", ":", ";", ",", "0", "1", "ffffffffffffffff", "X3,220022",
          "QStartNoAckMode", "QThreadSuffixSupported", "vCont?", "qC", "qfThreadInfo", "-1",
          "77686570", "7365656b20737461727420", "\xff", "}", "*", "7fffffff"]


def random_packets(server, seconds):
    choose = random.Random(7)
    until = time.time() + seconds
    count = answered = 0
    client = served(server)
    while time.time() < until and server.alive():
        payload = "".join(choose.choice(PIECES) for _ in range(choose.randrange(1, 6)))
        if choose.random() < 0.2:
            payload = payload[:choose.randrange(len(payload) + 1)]
        payload = payload.replace("$", "").replace("#", "")
        count += 1
        try:
            answer = client.ask(payload)
            if choose.random() < 0.02:
                client.socket.sendall(bytes(choose.randrange(256) for _ in range(50)))
        except OSError:
            answer = None
        if answer is None:
            client.close()
            client = served(server)
        else:
            answered += 1
    client.close()
    check(f"{count} random packets, {answered} answered", server.alive() and answered > count / 2)
    check("serves after them", serves(server))


def main():
    with tempfile.TemporaryDirectory() as scratch:
        crash, fine = (os.path.join(scratch, name) for name in ("crash.ttq", "fine.ttq"))
        subprocess.run([TTQ, "record", "-q", "-o", crash, "--", os.path.join(PROGRAMS, "threads")],
                       capture_output=True)
        subprocess.run([TTQ, "record", "-q", "-o", fine, "--", os.path.join(PROGRAMS, "reverse")],
                       capture_output=True)
        server = Server(TTQ, crash)
        misbehaviour(server)
        random_packets(server, SECONDS)
        p = subprocess.run([TTQ, "gdb", "--port", str(server.port), crash], capture_output=True, text=True)
        check("a port in use", p.returncode == 2 and "is in use" in p.stderr and
              p.stderr.count("\n") == 1, p)
        outside = [line.split() for line in open("/proc/net/tcp")
                   if line.split()[3] == "0A" and line.split()[1].endswith(":%04X" % server.port)]
        check("loopback only", outside and all(w[1].startswith("0100007F") for w in outside), outside)
        check("Ctrl-C ends it", server.end() in (-2, 130))

        server = Server(TTQ, fine)
        client = server.connect()
        check("without a crash it begins at the start", "T05" in (client.ask("?") or ""))
        check("… and ends with the recording", "replaylog:end" in (client.ask("vCont;c") or ""))
        check("… and begins", "replaylog:begin" in (client.ask("bc") or ""))
        client.close()
        server.end()

        # Killed while it recorded: what was stored is there.
        cut = os.path.join(scratch, "cut.ttq")
        recorder = subprocess.Popen([TTQ, "record", "-q", "-o", cut, "--", "/usr/bin/python3", "-c",
                                     "import time\nwhile True: time.sleep(.001)"], start_new_session=True,
                                    stderr=subprocess.DEVNULL)
        try:
            for _ in range(600):
                p = subprocess.run([TTQ, "query", "-t", cut, "-f", "json", "registers at end"],
                                   capture_output=True, text=True)
                if p.returncode == 0:
                    break
                time.sleep(0.1)
            server = Server(TTQ, cut)
            client = server.connect()
            check("still being made", "T05" in (client.ask("?") or "") and "still being" in server.said,
                  server.said)
            client.close()
            server.end()
        finally:  # it would run for ever
            os.killpg(recorder.pid, signal.SIGKILL)
            recorder.wait()
        server = Server(TTQ, cut)
        client = server.connect()
        check("cut off", "replaylog:end" in (client.ask("vCont;c") or "") and
              "incomplete" in server.said, server.said)
        client.close()
        server.end()

        p = subprocess.run([TTQ, "gdb", os.path.join(scratch, "none.ttq")], capture_output=True, text=True)
        check("no recording", p.returncode == 3 and p.stderr.count("\n") == 1, p)
        p = subprocess.run([TTQ, "gdb", "--gdb", "no-such-gdb", fine], capture_output=True, text=True)
        check("no gdb", p.returncode == 2 and "cannot run no-such-gdb" in p.stderr, p)
        p = subprocess.run([TTQ, "gdb", "--port", "99999", fine], capture_output=True, text=True)
        check("no such port", p.returncode == 2, p)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
