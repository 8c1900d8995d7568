"""Strangers at the port where a run listens for heartbeats."""
import contextlib
import pathlib
import re
import socket
import struct

import product

MAGIC = b"ECHELON\n"
# So many files and connections at once, and more strangers than that.
DESCRIPTORS = 256
STRANGERS = 400


def listening_ports(pid):
    sockets = set()
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            sockets.add(link.readlink().name)
    for table in "tcp", "tcp6":
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                yield int(fields[1].rpartition(":")[2], 16)


def is_heartbeats(port):
    """Says a version of the protocol that there is not, to which the service answers with its own."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(MAGIC + struct.pack("=II", 0, 1) + bytes(32))
        try:
            return client.recv(8) == MAGIC
        except OSError:
            return False


class Tests(product.Case):
    def commits(self):
        return len([*(self.folder / "run").glob("checkpoints/*/COMMIT")])

    def test_silent_connections_harm_neither_saves_nor_the_run(self):
        self.recipe(**{"train.steps": 1000000, "checkpoint.every_steps": 10, "checkpoint.keep_last": 0})
        process = self.start("bash", "-c", f'ulimit -n {DESCRIPTORS} && exec "$@"', "-",
                             *self.train_command("recipe.yaml", ranks=2))
        self.wait_for_step(1, process=process)
        rank0 = product.rank_processes(process.pid)[0]
        port = next(port for port in listening_ports(rank0) if is_heartbeats(port))
        strangers = []
        for _ in range(STRANGERS):
            strangers.append(socket.create_connection(("127.0.0.1", port), timeout=product.WAIT_S))
            self.addCleanup(strangers[-1].close)
        before = self.commits()
        self.wait_for("more checkpoints", lambda: process.poll() is not None or self.commits() > before + 3)
        self.stop(process)
        self.assertNotRegex(self.stderr_of_started(), re.compile("warning|not saved", re.I))


if __name__ == "__main__":
    product.main()
