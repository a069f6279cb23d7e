# SPDX-License-Identifier: Apache-2.0
"""Controllers of NVMe/TCP hosts that connect to a target and then do nothing, for what scripts/measure.py measures beside them."""
import select
import socket
import struct
import time


class IdleConnections:
    """Controllers of hosts that connected and then do nothing: ICReq, Connect, enable (NVMe/TCP 1.0, NVMe-oF 1.1)."""

    FABRICS, KEEP_ALIVE = 0x7F, 0x18
    PROPERTY_SET, CONNECT = 0x00, 0x01
    ENABLED = 0x00460001  # CC: enabled, queue entries of 64 and 16 bytes

    def __init__(self, port, nqn, count, keep_alive_ms):
        self.sockets, self.next = [], 0
        try:
            for index in range(count):
                self.sockets.append(self.open(port, nqn, index, keep_alive_ms))
        except OSError as error:
            self.close()
            raise ConnectionError(f"connection {len(self.sockets) + 1} of {count} to the target: {error}") from error

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for each in self.sockets:
            each.close()

    @classmethod
    def open(cls, port, nqn, index, keep_alive_ms):
        connection = socket.create_connection(("127.0.0.1", port), timeout=30)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(struct.pack("<BBBBIHBBI112x", 0, 0, 128, 0, 128, 0, 0, 0, 0))
        cls.receive(connection, 128)
        host = f"nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-{index:012d}".encode()
        data = struct.pack("<16sH238x256s256s256x", index.to_bytes(16, "big"), 0xFFFF, nqn.encode(), host)
        body = struct.pack("<HHHBxI12x", 0, 0, 31, 0, keep_alive_ms)
        cls.command(connection, cls.FABRICS, cls.CONNECT, body, data)
        cls.command(connection, cls.FABRICS, cls.PROPERTY_SET, struct.pack("<B3xIQ8x", 0, 0x14, cls.ENABLED))
        return connection

    @staticmethod
    def receive(connection, count):
        got = b""
        while len(got) < count:
            piece = connection.recv(count - len(got))
            if not piece:
                raise ConnectionError("closed by the target")
            got += piece
        return got

    @classmethod
    def command(cls, connection, opcode, fabrics_type, body, data=b""):
        # The data lie in the capsule, or there are none; either is an SGL data block relative to the capsule.
        capsule = struct.pack("<BBHB19xQI3xB24s", opcode, 0x40, 1, fabrics_type, 0, len(data), 0x01, body)
        header = struct.pack("<BBBBI", 4, 0, 72, 72 if data else 0, 72 + len(data))
        connection.sendall(header + capsule + data)
        status = struct.unpack_from("<H", cls.receive(connection, 24), 22)[0] >> 1
        if status:
            raise ConnectionError(f"opcode {opcode:#x} ended with status {status:#x}")

    def keep_alive(self, seconds, every):
        """Each connection says that its host lives, once in `every` seconds, in turn."""
        gap, due = every / len(self.sockets), time.monotonic()
        end = due + seconds
        while due < end:
            self.command(self.sockets[self.next], self.KEEP_ALIVE, 0, b"")
            self.next = (self.next + 1) % len(self.sockets)
            due += gap
            time.sleep(max(0, due - time.monotonic()))

    def all_open(self):
        poll = select.poll()
        for each in self.sockets:
            poll.register(each, select.POLLIN | select.POLLHUP)
        return not poll.poll(0)
