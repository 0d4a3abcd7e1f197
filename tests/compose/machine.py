"""A machine of namespaces, and containers on it: what Docker would do with one service.

Runs as root and as the first process of namespaces of its own (`ENTER`), so that nothing of it is
seen from outside, and nothing is left of it at its end.
"""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from devstack.process import Server
from tests.compose.compose_file import ROOT, Service
from tests.compose.images import Image

ENTER = ("unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc")
_NETWORK = "10.89.0"
_START = """\
set -euo pipefail
hostname {hostname}
{mounts}
cd {root}
pivot_root . .old
umount -l /.old
cd {folder}
exec unshare --user --map-user={user} --map-group={group} \\
  setpriv --no-new-privs env -i {command}
"""
"""The user is this root under another number: it owns our files, and has no capability."""
_TMPFS = "noexec,nosuid,nodev"
"""Docker's own options; those that the file names come after them."""


def may_start() -> str | None:
    """Why no machine can be started here; None if one can."""
    if os.geteuid() != 0:
        return "only root may start containers"
    tried = subprocess.run([*ENTER, "ip", "link", "set", "lo", "up"], capture_output=True)
    return None if tried.returncode == 0 else f"no namespaces: {tried.stderr.decode().strip()}"


class Machine:
    """A network, and containers on it.

    Args:
        folder: For logs, and for what containers write.
        names: Of all services.
    """

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        self.servers: dict[str, Server] = {}
        self._folder = folder
        self._run = Path("/run")  # a tmpfs of this machine's own
        self._volumes: dict[str, Path] = {}
        self._addresses = {
            name: f"{_NETWORK}.{number}" for name, number in zip(names, itertools.count(2))
        }
        self._environment: dict[str, list[str]] = {}

    def prepare(self, venv: Path) -> None:
        """Make the network and the names of its hosts.

        Args:
            venv: Created: shows this environment, and keeps what is written to it.
        """
        _do("mount -t tmpfs tmpfs /run", "mkdir /run/netns /run/venv /run/venv/up /run/venv/work")
        hosts = self._run / "hosts"
        lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
        lines += [f"{address} {name} id-{name}" for name, address in self._addresses.items()]
        hosts.write_text("\n".join([*lines, ""]))
        venv.mkdir(exist_ok=True)
        _do(
            "mount --bind /run/hosts /etc/hosts",
            _overlay(venv, [Path(sys.prefix).resolve()], self._run / "venv"),
            "ip link set lo up",
            "ip link add services type bridge",
            f"ip addr add {_NETWORK}.1/24 dev services",
            "ip link set services up",
        )
        for name, address in self._addresses.items():
            inside = f"ip -n {name}"
            _do(
                f"ip netns add {name}",
                f"ip link add {_interface(address)} type veth peer name eth0 netns {name}",
                f"ip link set {_interface(address)} master services up",
                f"{inside} addr add {address}/24 dev eth0",
                f"{inside} link set eth0 up",
                f"{inside} link set lo up",
            )

    def start(self, service: Service, image: Image) -> Server:
        """Start a container; does not wait until it is healthy."""
        log = self._log(service.name)
        self.servers[service.name] = Server.start(service.name, self._line(service, image), log)
        return self.servers[service.name]

    def run(self, service: Service, image: Image, timeout: float) -> None:
        """Run a container that ends by itself.

        Raises:
            AssertionError: It did not exit with 0.
            subprocess.TimeoutExpired: It did not end in time.
        """
        with open(self._log(service.name), "wb") as log:
            line = self._line(service, image)
            done = subprocess.run(line, stdout=log, stderr=log, timeout=timeout, check=False)
        said = self._log(service.name).read_text()[-4000:]
        assert done.returncode == 0, f"{service.name}: exit status {done.returncode}\n{said}"

    def _log(self, name: str) -> Path:
        (self._folder / "logs").mkdir(exist_ok=True)
        return self._folder / "logs" / f"{name}.log"

    def _line(self, service: Service, image: Image) -> list[str]:
        """The command that becomes a container."""
        given = {"HOSTNAME": service.hostname, "HOME": image.folder, **image.environment}
        environment = {**given, **service.environment}
        self._environment[service.name] = [f"{k}={v}" for k, v in environment.items()]
        command = [*image.entry, *(service.command or image.default)]
        user, _, group = service.user.partition(":")
        script = _START.format(
            hostname=service.hostname,
            mounts="\n".join(self._mounts(service, image)),
            root=self._run / service.name / "root",
            folder=image.folder,
            user=user if user.isdecimal() else image.user,
            group=group or image.user,
            command=shlex.join([*self._environment[service.name], *command]),
        )
        inside = ["nsenter", f"--net=/run/netns/{service.name}", "unshare", "--mount", "--uts"]
        return [*inside, "bash", "-c", script]

    def execute(
        self, name: str, command: list[str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a container that runs, as `docker compose exec` does.

        Raises:
            subprocess.TimeoutExpired: It did not end in time.
        """
        parts = ("--mount", "--uts", "--net", "--user", "--preserve-credentials")
        enter = ["nsenter", "--target", str(self.servers[name].pid), *parts]
        return subprocess.run(
            [*enter, "env", "-i", *self._environment[name], *command],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def stop(self) -> None:
        """Stop all containers, the last one first."""
        for server in reversed(self.servers.values()):
            server.stop()

    def _mounts(self, service: Service, image: Image) -> list[str]:
        """Commands that make the container's root, as Docker does: shorter paths first."""
        own = self._run / service.name
        root, under = own / "root", own / "under"
        binds = {target: (path, True) for target, path in image.binds.items()}
        for volume in service.volumes:
            is_named = volume.source[0] != "."
            path = self._volume(volume.source, volume.target, image)
            binds[volume.target] = (path if is_named else ROOT / volume.source, volume.read_only)
        tmpfs = dict(line.partition(":")[::2] for line in service.tmpfs)
        points = (under / path[1:] for path in (*binds, *tmpfs))
        for made in (root, own / "up", own / "work", under / ".old", under / "etc", *points):
            made.mkdir(parents=True, exist_ok=True)
        (under / "etc/hosts").write_text((self._run / "hosts").read_text())
        layers = [under, self._layer(image), Path("/")]
        lines = [_overlay(root, layers, None if service.read_only else own)]
        lines += [f"mount --rbind /{part} {root}/{part}" for part in ("proc", "sys", "dev")]
        for target in sorted((*binds, *tmpfs), key=lambda path: path.count("/")):
            lines.append(f"mkdir -p {root}{target}")
            if target in tmpfs:
                wanted = [x for x in tmpfs[target].split(",") if x and x != "uid=50000"]
                options = ",".join([_TMPFS, "mode=1777", *wanted])
                lines.append(f"mount -t tmpfs -o {options} tmpfs {root}{target}")
            else:
                path, is_read_only = binds[target]
                lines.append(f"mount --rbind {path} {root}{target}")
                lines += [f"mount -o remount,bind,ro {root}{target}"] if is_read_only else []
        return lines

    def _layer(self, image: Image) -> Path:
        """The image's layer on a file system of its own: no layer may lie within another."""
        copy = self._run / "layers" / image.layer.name
        if not copy.exists():
            shutil.copytree(image.layer, copy)
        return copy

    def _volume(self, name: str, target: str, image: Image) -> Path:
        """A named volume; a new one has what its image has there."""
        path = self._run / "volumes" / name
        for made in ("", *image.volumes.get(target, ())):
            (path / made).mkdir(parents=True, exist_ok=True)
        return path


def _overlay(root: Path, layers: list[Path], written: Path | None) -> str:
    """Command that mounts layers, the uppermost first, below what `written` has in `up`."""
    options = f"lowerdir={':'.join(map(str, layers))}"
    if written is None:
        return f"mount -t overlay -o ro,{options} overlay {root}"
    return (
        f"mount -t overlay -o {options},upperdir={written}/up,workdir={written}/work overlay {root}"
    )


def _interface(address: str) -> str:
    return f"service{address.rpartition('.')[2]}"


def _do(*commands: str) -> None:
    for command in commands:
        done = subprocess.run(shlex.split(command), capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}"
