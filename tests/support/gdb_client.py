# SPDX-License-Identifier: MIT
"""`ttq gdb --port`, and a client that speaks gdb's remote protocol with it."""

import re
import signal
import socket
import subprocess


class Server:
    def __init__(self, ttq, *arguments):
        self.process = subprocess.Popen([ttq, "gdb", "--port", "0", *arguments],
                                        stderr=subprocess.PIPE, text=True)
        match, self.said = None, ""
        while match is None:
            line = self.process.stderr.readline()
            self.said += line
            if not line:
                raise SystemExit("no server: " + self.said)
            match = re.search(r":(\d+)$", line.strip())
        self.port = int(match.group(1))

    def connect(self):
        return Client(self.port)

    def alive(self):
        return self.process.poll() is None

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=60)
        return self.process.returncode


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def send(self, payload):
        if isinstance(payload, str):
            payload = payload.encode("latin-1")
        self.socket.sendall(b"$" + payload + b"#%02x" % (sum(payload) & 255))

    def receive(self):
        """The next packet's payload; None: the server hung up."""
        while True:
            match = re.search(rb"\$([^#]*)#[0-9a-f]{2}", self.buffer)
            if match:
                self.buffer = self.buffer[match.end():]
                return match.group(1).decode("latin-1")
            try:
                piece = self.socket.recv(65536)
            except ConnectionResetError:
                return None
            if not piece:
                return None
            self.buffer += piece

    def ask(self, payload):
        self.send(payload)
        return self.receive()

    def monitor(self, command):
        """What the command prints."""
        answer, text = self.ask("qRcmd," + command.encode().hex()), ""
        while answer and answer[0] == "O" and answer != "OK":
            text += bytes.fromhex(answer[1:]).decode()
            answer = self.receive()
        return text

    def close(self):
        self.socket.close()
