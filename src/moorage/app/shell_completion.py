"""Completion scripts for bash, zsh and fish.

The flags of the scheduler come from its own table, all other commands from the argparse parser that
is handed in. Owns the languages of the three shells (the parts of a script that do not depend on
commands are in `completion.bash` and `completion.zsh`). Must not parse any command line itself.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from moorage.app.flag_table import SECTIONS

SCHEDULER = "scheduler"
"""The command that is also a program of its own."""
_SCHEDULER_PROGRAM = "moorage-scheduler"
_EXTENSIONS = {
    f"--{flag.name}": tuple(flag.extensions) for section in SECTIONS for flag in section.flags
}
"""Of the files that are offered for a flag, whichever command has it."""


@dataclass(frozen=True, slots=True)
class Option:
    """A flag and what may follow it."""

    names: tuple[str, ...]
    text: str
    takes_value: bool = False
    extensions: tuple[str, ...] = ()
    """The endings of files that are offered as its value."""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A command, the path to it on the command line, and what it takes."""

    path: tuple[str, ...]
    text: str
    options: tuple[Option, ...]
    arguments: tuple[tuple[str, str], ...] = ()
    """Subcommands or other fixed arguments, each with its text."""


def _filled(name: str, program: str, **parts: str) -> str:
    """The script in a file beside this module, with these parts in it."""
    script = files("moorage.app").joinpath(name).read_text()
    names = {"program": program, "scheduler": SCHEDULER, "scheduler_program": _SCHEDULER_PROGRAM}
    for part, value in (names | parts).items():
        script = script.replace(f"@{part}@", value)
    return script


def _bash(program: str, commands: Sequence[ShellCommand]) -> str:
    paths = " ".join(f'"{" ".join(command.path)}"' for command in commands if command.path)
    arms = "".join(_bash_arm(program, command) for command in commands)
    return _filled("completion.bash", program, paths=paths, arms=arms)


def _bash_arm(program: str, command: ShellCommand) -> str:
    """Which flags and arguments a command takes, and what follows some flags."""
    flags = " ".join(name for option in command.options for name in option.names)
    words = " ".join(word for word, _ in command.arguments)
    values = ""
    for option in command.options:
        names = "|".join(option.names)
        if option.extensions:
            values += f"{names}) _{program}_files {' '.join(option.extensions)} && return ;;\n"
        elif option.choices:
            offered = f'compgen -W "{" ".join(option.choices)}" -- "$cur"'
            values += f"{names}) mapfile -t COMPREPLY < <({offered}) && return ;;\n"
        elif option.takes_value:
            values += f"{names}) return ;;\n"
    lines = [f'"{" ".join(command.path)}")', f'    flags="{flags}"', f'    words="{words}"']
    if values:
        lines.append('    case "$prev" in')
        lines += [f"        {line}" for line in values.splitlines()]
        lines.append("    esac")
    lines.append("    ;;")
    return "".join(f"        {line}\n" for line in lines)


def _zsh(program: str, commands: Sequence[ShellCommand]) -> str:
    paths = {command.path for command in commands}
    functions = "".join(_zsh_function(program, command, paths) for command in commands)
    return _filled("completion.zsh", program, functions=functions)


def _zsh_function(program: str, command: ShellCommand, paths: Iterable[tuple[str, ...]]) -> str:
    name = "_".join(("", program, *command.path)).replace("-", "_")
    specs = [
        _zsh_option(spelling, option) for option in command.options for spelling in option.names
    ]
    below = [word for word, _ in command.arguments if (*command.path, word) in paths]
    if command.arguments:
        offered = " ".join(f'{word}\\:"{_zsh_text(text)}"' for word, text in command.arguments)
        specs.append(_single(f"1:command:(({offered}))"))
    after = ""
    if below:
        specs.append(_single("*::argument:->arguments"))
        arms = "".join(
            f"        arguments:{word}) {name}_{word.replace('-', '_')} ;;\n" for word in below
        )
        after = f'    case "$state:$line[1]" in\n{arms}    esac\n'
    shown = " \\\n        ".join(["_arguments -C", *specs])
    local = 'local curcontext="$curcontext" state line'
    return f"\n{name}() {{\n    {local}\n    {shown}\n{after}}}\n"


def _zsh_option(spelling: str, option: Option) -> str:
    value = ""
    if option.extensions:
        value = f':file:_files -g "*.({"|".join(option.extensions)})(-.)"'
    elif option.choices:
        value = f":value:({' '.join(option.choices)})"
    elif option.takes_value:
        value = ":value:_default"
    sign = "" if not value else "=" if spelling.startswith("--") else "+"
    text = f"[{_zsh_text(option.text)}]" if option.text else ""
    return _single(f"*{spelling}{sign}{text}{value}")


def _zsh_text(text: str) -> str:
    """A description without the signs that mean something inside a specification."""
    for sign in '\\[]()"`$':
        text = text.replace(sign, "")
    return text.replace(":", "\\:")


def _fish(program: str, commands: Sequence[ShellCommand]) -> str:
    lines = [
        f"# Completion for {program} in fish. Use it with:  {program} completion fish | source",
        f"complete -c {program} -f",
        f"complete -c {_SCHEDULER_PROGRAM} -f",
    ]
    for command in commands:
        when = _fish_condition(command)
        for word, text in command.arguments:
            lines.append(f"complete -c {program}{when} -a {word} -d {_single(text)}")
        for option in command.options:
            shape = _fish_option(option)
            lines.append(f"complete -c {program}{when}{shape}")
            if command.path == (SCHEDULER,):
                lines.append(f"complete -c {_SCHEDULER_PROGRAM}{shape}")
    return "\n".join(lines) + "\n"


def _fish_condition(command: ShellCommand) -> str:
    """The arguments that must, and must not, come before something is offered."""
    conditions = [f"__fish_seen_subcommand_from {word}" for word in command.path]
    if command.arguments:
        below = " ".join(word for word, _ in command.arguments)
        conditions.append(f"not __fish_seen_subcommand_from {below}")
    return f" -n {_single('; and '.join(conditions))}" if conditions else ""


def _fish_option(option: Option) -> str:
    parts = [
        f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}" for name in option.names
    ]
    if option.extensions:
        offered = " ".join(f"(__fish_complete_suffix .{ending})" for ending in option.extensions)
        parts.append(f" -r -k -a {_single(offered)}")
    elif option.choices:
        parts.append(f" -x -a {_single(' '.join(option.choices))}")
    elif option.takes_value:
        parts.append(" -r")
    if option.text:
        parts.append(f" -d {_single(option.text)}")
    return "".join(parts)


def _single(text: str) -> str:
    """A word in single quotes, which these shells take literally."""
    inner = text.replace("\n", " ").replace("\\'", "'").replace("'", "'\\''")
    return f"'{inner}'"


SHELLS: Mapping[str, Callable[[str, Sequence[ShellCommand]], str]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
"""What makes the script of each shell."""


def completion_script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The script for a shell: bash, zsh or fish."""
    commands = [
        ShellCommand((SCHEDULER,), command.text, scheduler_options())
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
            _EXTENSIONS[f"--{flag.name}"],
            tuple(flag.choices),
        )
        for section in SECTIONS
        for flag in section.flags
    )


def _commands(
    parser: argparse.ArgumentParser, path: tuple[str, ...], text: str
) -> Iterable[ShellCommand]:
    options: list[Option] = []
    arguments: list[tuple[str, str]] = []
    below: list[tuple[str, str, argparse.ArgumentParser]] = []
    # argparse has no public way to ask a parser what it takes.
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            texts = {choice.dest: choice.help or "" for choice in action._choices_actions}
            below += [(name, texts.get(name, ""), sub) for name, sub in action.choices.items()]
            arguments += [(name, texts.get(name, "")) for name in action.choices]
        elif action.option_strings:
            options.append(_option(action))
        elif action.choices:
            arguments += [(str(choice), "") for choice in action.choices]
    yield ShellCommand(path, text, tuple(options), tuple(arguments))
    for name, about, sub in below:
        yield from _commands(sub, (*path, name), about)


def _option(action: argparse.Action) -> Option:
    return Option(
        tuple(action.option_strings),
        "" if action.help is argparse.SUPPRESS else action.help or "",
        action.nargs != 0,
        _EXTENSIONS.get(action.option_strings[-1], ()),
        tuple(str(choice) for choice in action.choices or ()),
    )
