"""Places where commands and the agent run. A plug makes one and hands it inwards with `next(host=…)`."""

from jsrun.plugs.hosts.bound import BoundHost
from jsrun.plugs.hosts.local import LocalHost
from jsrun.plugs.hosts.memory import MemoryHost
from jsrun.plugs.hosts.path import HostPath
from jsrun.plugs.hosts.ssh import SshHost, SshLogin
from jsrun.plugs.hosts.unavailable import UnavailableHost

__all__ = ["BoundHost", "HostPath", "LocalHost", "MemoryHost", "SshHost", "SshLogin", "UnavailableHost"]
