# SPDX-License-Identifier: Apache-2.0
"""QEMU's control socket (QEMU Machine Protocol): one JSON object a line, events in between."""
import json


class Qmp:
    def __init__(self, connected):
        self.socket = connected
        self.socket.settimeout(60)
        self.lines = self.socket.makefile("r")
        self.lines.readline()
        self("qmp_capabilities")

    def __call__(self, command, **arguments):
        self.socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        for line in self.lines:
            answer = json.loads(line)
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise RuntimeError(f"QEMU refused {command}: {answer['error']['desc']}")
        raise RuntimeError(f"QEMU ended during {command}")

    def monitor(self, line):
        return self("human-monitor-command", **{"command-line": line})
