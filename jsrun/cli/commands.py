"""The commands by name. The module of one is imported when it is called, because all of them take half a second."""

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

# Name → module and attribute: a function, or a `Typer` with commands below it.
COMMANDS = {
    "new": ("jsrun.cli.new", "command"),
    "check": ("jsrun.cli.check", "command"),
    "run": ("jsrun.cli.run", "command"),
    "replay": ("jsrun.cli.replay", "replay"),
    "resume": ("jsrun.cli.replay", "resume"),
    "test": ("jsrun.cli.test", "command"),
    "types": ("jsrun.cli.types", "command"),
    "map": ("jsrun.cli.mapping", "command"),
    "journal": ("jsrun.cli.record", "app"),  # the commands of `jsrun.cli.journal` and its own
    "store": ("jsrun.cli.store", "app"),
    "agent": ("jsrun.agent.cli", "command"),
    "acp": ("jsrun.acp.cli", "command"),
    "plugs": ("jsrun.plugs.cli", "app"),
    "doctor": ("jsrun.cli.doctor", "command"),
}


class Commands(TyperGroup):
    """The group of all commands."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name; None if there is none, and then all are there, to find the nearest."""
        for name in [cmd_name] if cmd_name in COMMANDS else COMMANDS:
            if name not in self.commands:
                self.commands[name] = _load(name)
        return self.commands.get(cmd_name)


def _load(name: str) -> Any:
    module, attribute = COMMANDS[name]
    found = getattr(import_module(module), attribute)
    if not isinstance(found, typer.Typer):
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(name)(found)
        found = single
    command = get_command(found)
    command.name = name
    return command
