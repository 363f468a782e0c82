"""A systemd unit and a Containerfile for one node: text to look at, change and install; nothing here needs them.

Decides how a supervised node is confined: no privileges, no Docker socket, a state folder for its user alone, secrets
by file and never in arguments or environment. Pure. It refuses what a line of a unit cannot hold.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePosixPath

from node.errors import UserError

FINAL_STATUSES = (2, 3, 4)
"""Exit codes that another start does not cure: settings, wallet, ejected (see node.errors and node.membership)."""
RESTART_S = 10
STOP_S = 90
USER_ID = 10001
COMPUTES = ("trainer", "validator", "worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """How the node is to be started; `config`, `wallet` and `password_file` are absolute paths on the machine."""

    role: str
    program: tuple[str, ...]
    config: str
    wallet: str
    password_file: str
    join: tuple[str, ...] = ()
    port: int = 0
    user: str = "intellect-node"

    def __post_init__(self) -> None:
        texts = (*self.program, self.config, self.wallet, self.password_file, *self.join, self.user)
        if any(not text.isprintable() or not text for text in texts):
            raise UserError("a path holds a line break or another control character", fix="use another path")
        if not all(PurePosixPath(path).is_absolute() for path in (self.config, self.wallet, self.password_file)):
            raise UserError("a supervisor starts the node in another folder", fix="give absolute paths")

    def arguments(self, *, config: str, wallet: str, password_file: str, data_dir: str) -> tuple[str, ...]:
        """The node's command line behind the program's name."""
        named = {"--role": self.role, "--config": config, "--wallet": wallet, "--password-file": password_file,
                 "--data-dir": data_dir}  # fmt: skip
        words = [word for option in named.items() for word in option]
        words += [word for address in self.join for word in ("--join", address)]
        return (*words, *(("--port", str(self.port)) if self.port else ()))


def systemd_unit(service: Service) -> str:
    """A unit for /etc/systemd/system. The state is in /var/lib/intellect-node/ROLE, which systemd makes, 0700."""
    state = f"intellect-node/{service.role}"
    arguments = service.arguments(
        config=service.config, wallet=service.wallet, password_file="\0password", data_dir=f"\0{state}"
    )
    command = " ".join([*map(_quoted, service.program), *map(_quoted, arguments)])
    # systemd's own specifiers: the credential's folder and /var/lib.
    command = command.replace('"\0password"', "%d/password").replace(f'"\0{state}"', f"%S/{state}")
    devices = "" if service.role in COMPUTES else "PrivateDevices=yes\n"
    return f"""\
# Install: copy to /etc/systemd/system/intellect-node-{service.role}.service, then
#   useradd --system {service.user}; chown {service.user} {service.wallet}; chmod 600 {service.wallet}
#   systemctl daemon-reload; systemctl enable --now intellect-node-{service.role}
# Leave the pool before you remove it: intellect-node drain --data-dir /var/lib/{state} …
[Unit]
Description=intellect-node, {service.role}
Wants=network-online.target
After=network-online.target

[Service]
Type=exec
User={service.user}
LoadCredential=password:{service.password_file.replace("%", "%%")}
ExecStart={command}
StateDirectory={state}
StateDirectoryMode=0700
WorkingDirectory=%S/{state}
UMask=0077
Restart=on-failure
RestartSec={RESTART_S}
RestartPreventExitStatus={" ".join(map(str, FINAL_STATUSES))}
KillSignal=SIGTERM
TimeoutStopSec={STOP_S}
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
InaccessiblePaths=-/run/docker.sock -/run/containerd -/run/podman
PrivateTmp=yes
{devices}ProtectSystem=strict
ProtectHome=read-only
ProtectClock=yes
ProtectHostname=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectProc=invisible
RestrictSUIDSGID=yes
RestrictRealtime=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
LockPersonality=yes
RemoveIPC=yes
SystemCallArchitectures=native

[Install]
WantedBy=multi-user.target
"""


def containerfile(service: Service) -> str:
    """A Containerfile to be built in the project's folder; wallet, password and config are given when it runs."""
    arguments = service.arguments(
        config="/run/secrets/run.toml",
        wallet="/run/secrets/wallet.json",
        password_file="/run/secrets/password",
        data_dir="/state",
    )
    image = f"intellect-node-{service.role}"
    secrets = {"run.toml": service.config, "wallet.json": service.wallet, "password": service.password_file}
    create = "\n".join(f"#   podman secret create {image}-{name} {_shell(path)}" for name, path in secrets.items())
    use = " ".join(f"--secret {image}-{name},target={name},uid={USER_ID},mode=0400" for name in secrets)
    ports = "" if not service.port else f"-p {service.port}-{service.port + 2}:{service.port}-{service.port + 2} "
    return f"""\
# Build in the project's folder, then run; it needs no Docker socket and no privilege.
#   podman build -t {image} -f Containerfile .
{create}
#   podman run -d --name {image} --restart on-failure --read-only --tmpfs /tmp --cap-drop all
#     --security-opt no-new-privileges -v {image}:/state {ports}{use} {image}
# Set network.host of the config to the address at which others reach the container.
FROM python:3.11-slim
RUN apt-get update \\
 && apt-get install -y --no-install-recommends build-essential libgmp-dev \\
 && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY requirements.lock ./
RUN pip install --no-cache-dir --no-deps -r requirements.lock
COPY pyproject.toml README.md ./
COPY node node
COPY ledger ledger
COPY dht dht
COPY rl rl
COPY verify verify
RUN pip install --no-cache-dir --no-deps . \\
 && useradd --system --uid {USER_ID} --home-dir /state node \\
 && install -d -m 0700 -o {USER_ID} /state
USER {USER_ID}
ENV HOME=/state
VOLUME /state
WORKDIR /state
STOPSIGNAL SIGTERM
ENTRYPOINT {json.dumps(["intellect-node", *arguments])}
"""


def _quoted(word: str) -> str:
    """One word of ExecStart: quotes, and what systemd would put values in for."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


def _shell(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"
