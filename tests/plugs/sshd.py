"""A real SSH server on loopback with throw-away keys. Where there is none the tests are skipped; in CI that fails."""

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncssh
import pytest

from jsrun.plugs.hosts.ssh import SshLogin

_HINT = "this test needs an SSH server (Debian: apt-get install openssh-server)"
_START_SECONDS = 20.0


@dataclass(frozen=True)
class Server:
    """A server that is up: how to log in, its log, and its process."""

    login: SshLogin
    log: Path
    pid: int

    def logins(self) -> int:
        """How many connections have logged in."""
        return self.log.read_text().count("Accepted publickey")


@contextlib.contextmanager
def sshd(folder: Path) -> Iterator[Server]:
    """A server that lets the current user in with a new key; its files are in `folder`."""
    program = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        if os.environ.get("CI"):
            pytest.fail(_HINT)
        pytest.skip(_HINT)
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where the server of a system keeps its empty folder
    host_key = asyncssh.generate_private_key("ssh-ed25519")
    user_key = asyncssh.generate_private_key("ssh-ed25519")
    port = _free_port()
    for name, key in (("host_key", host_key), ("user_key", user_key)):
        key.write_private_key(str(folder / name))
        (folder / name).chmod(0o600)
    user_key.write_public_key(str(folder / "authorized_keys"))
    public = host_key.export_public_key().decode().strip()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {public}\n")
    (folder / "client_config").write_text("")
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host_key\nPidFile none\nUsePAM no\nStrictModes no\n"
        f"AuthorizedKeysFile {folder}/authorized_keys\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n"
        "Subsystem sftp internal-sftp\nLogLevel VERBOSE\n"
    )
    log = folder / "log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [program, "-D", "-e", "-f", str(folder / "sshd_config")], stdin=subprocess.DEVNULL, stderr=stderr
        )
    try:
        _wait_until_up(process, port, log)
        login = SshLogin(
            "127.0.0.1",
            port=port,
            username=getpass.getuser(),
            client_keys=[folder / "user_key"],
            known_hosts=folder / "known_hosts",
            config=folder / "client_config",
        )
        yield Server(login, log, process.pid)
    finally:
        process.terminate()
        process.wait(timeout=10)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _wait_until_up(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    pytest.fail(f"sshd did not start: {log.read_text()}")
