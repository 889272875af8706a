"""What a shell may offer after which words of a command line.

Owns collecting commands and flags; the scripts are in `completion_scripts`. The flags of the
scheduler come from its own table, all other commands from the argparse parser that is handed in.
Must not parse any command line itself.
"""

import argparse
from collections.abc import Iterable

from moorage.app.completion_scripts import SCHEDULER, SHELLS, Command, Option
from moorage.app.flags_scheduler import CHOICES, FILE_EXTENSIONS, SECTIONS


def completion_script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The script for a shell: bash, zsh or fish."""
    commands = [
        Command((SCHEDULER,), command.text, scheduler_options())
        if command.path == (SCHEDULER,)
        else command
        for command in _commands(parser, (), "")
    ]
    return SHELLS[shell](parser.prog, commands)


def scheduler_options() -> tuple[Option, ...]:
    """The flags of the scheduler; those that take a value may also be written with `=`."""
    return tuple(
        Option(
            (*((f"-{flag.shorthand}",) if flag.shorthand else ()), f"--{flag.name}"),
            flag.usage.partition("\n")[0],
            flag.kind.bare is None,
            FILE_EXTENSIONS.get(flag.name, ()),
            CHOICES.get(flag.name, ()),
        )
        for section in SECTIONS
        for flag in section.flags
    )


def _commands(
    parser: argparse.ArgumentParser, path: tuple[str, ...], text: str
) -> Iterable[Command]:
    options: list[Option] = []
    words: list[tuple[str, str]] = []
    below: list[tuple[str, str, argparse.ArgumentParser]] = []
    # argparse has no public way to ask a parser what it takes.
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            texts = {choice.dest: choice.help or "" for choice in action._choices_actions}
            below += [(name, texts.get(name, ""), sub) for name, sub in action.choices.items()]
            words += [(name, texts.get(name, "")) for name in action.choices]
        elif action.option_strings:
            options.append(_option(action))
        elif action.choices:
            words += [(str(choice), "") for choice in action.choices]
    yield Command(path, text, tuple(options), tuple(words))
    for name, about, sub in below:
        yield from _commands(sub, (*path, name), about)


def _option(action: argparse.Action) -> Option:
    name = action.option_strings[-1].lstrip("-")
    return Option(
        tuple(action.option_strings),
        "" if action.help is argparse.SUPPRESS else action.help or "",
        action.nargs != 0,
        FILE_EXTENSIONS.get(name, ()),
        tuple(str(choice) for choice in action.choices or ()),
    )
