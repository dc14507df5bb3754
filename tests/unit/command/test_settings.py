"""Settings: where their values come from, which source wins, and what bad input is told."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from scaler.command.cli import SUBCOMMANDS
from scaler_protocol.command import BadInput, LoggingSettings, argument, option, read_settings, settings_arguments
from scaler_protocol.units import BYTES, SECONDS


@dataclass(frozen=True, kw_only=True)
class Settings(LoggingSettings):
    address: str = argument(help="where")
    protected: bool = option(True, "-p", help="refuse shutdown")
    io_threads: int = option(1, "-it", help="threads, 100% busy", minimum=1, maximum=64)
    tasks_waiting: int = option(-1, "-mt", help="bound")
    grace_seconds: float = option(10.0, help="time to end")
    event_loop: str = option("builtin", "-e", help="loop", choices=("builtin", "uvloop"))
    worker_names: tuple[str, ...] = option((), "-wn", help="names")
    path: str | None = option(None, metavar="DIR", help="a path")
    timeout: float = option(60.0, "-t", unit=SECONDS, minimum=0.1, help="silence")
    memory: int = option(1 << 30, unit=BYTES, minimum=0, help="bound")
    capabilities: tuple[str, ...] = option((), help="what tasks may ask for")


def read(*arguments: str, environment: dict[str, str] | None = None) -> Settings:
    return read_settings(
        Settings,
        arguments,
        program="program",
        section="scheduler",
        environment=environment or {},
        description="Text.",
        version="1.2.3",
    )


def complaint(*arguments: str, environment: dict[str, str] | None = None) -> str:
    with pytest.raises(BadInput) as caught:
        read(*arguments, environment=environment)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def config(directory: Path, text: str) -> str:
    path = directory / "scaler.toml"
    path.write_text(text)
    return str(path)


def test_defaults() -> None:
    assert read("tcp://a:1") == Settings(address="tcp://a:1")


def test_long_and_short_flags() -> None:
    settings = read("-it", "3", "tcp://a:1", "--grace-seconds", "0.5", "-mt", "-1", "-e", "uvloop", "--path=/x")
    assert (settings.io_threads, settings.grace_seconds, settings.tasks_waiting) == (3, 0.5, -1)
    assert (settings.event_loop, settings.path) == ("uvloop", "/x")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--protected", "tcp://a:1"], True),
        (["--no-protected", "tcp://a:1"], False),
        (["-p", "tcp://a:1"], True),
        (["-p", "False", "tcp://a:1"], False),
        (["-p", "true", "tcp://a:1"], True),
        (["tcp://a:1", "--protected=off"], False),
        (["tcp://a:1", "--no-protected", "-p"], True),
    ],
)
def test_switches_never_swallow_the_address(arguments: list[str], expected: bool) -> None:
    settings = read(*arguments)
    assert (settings.protected, settings.address) == (expected, "tcp://a:1")


@pytest.mark.parametrize("word", ["-p--", "--protected=--", "--io-threads=--", "--memory=--", "--config=--"])
def test_two_dashes_are_no_value(word: str) -> None:
    flag = {"-p--": "--protected", "--config=--": "--"}.get(word, word.partition("=")[0])
    assert complaint("tcp://a:1", word).startswith(("Cannot use", "Cannot read"))
    assert flag in complaint("tcp://a:1", word)


def test_lists_take_words_and_commas() -> None:
    assert read("tcp://a:1", "-wn", "a,b", "c").worker_names == ("a", "b", "c")


def test_an_address_after_a_list_is_the_address() -> None:
    settings = read("--logging-paths", "/dev/stdout", "/tmp/log", "tcp://a:1")
    assert settings.logging_paths == ("/dev/stdout", "/tmp/log")
    assert settings.address == "tcp://a:1"


def test_environment_and_file(tmp_path: Path) -> None:
    path = config(
        tmp_path, '[scheduler]\nio-threads = 5\nprotected = false\nworker_names = ["x", "y"]\n[top]\ntimeout = 1\n'
    )
    environment = {"SCALER_SCHEDULER_IO_THREADS": "4", "SCALER_SCHEDULER_ADDRESS": "tcp://b:2"}
    settings = read("--config", path, environment=environment)
    assert (settings.io_threads, settings.address, settings.protected) == (4, "tcp://b:2", False)
    assert settings.worker_names == ("x", "y")


def test_precedence(tmp_path: Path) -> None:
    path = config(tmp_path, "[scheduler]\nio-threads = 5\n")
    environment = {"SCALER_SCHEDULER_IO_THREADS": "4"}
    assert read("a", "--config", path, "-it", "3", environment=environment).io_threads == 3
    assert read("a", "--config", path, environment=environment).io_threads == 4
    assert read("a", "--config", path).io_threads == 5
    assert read("a").io_threads == 1


@dataclass(frozen=True, kw_only=True)
class MayDoWithout:
    address: str | None = argument(default=None, help="where")


@pytest.mark.parametrize(("arguments", "address"), [([], None), (["a"], "a")])
def test_an_argument_with_a_default_may_be_left_out(arguments: list[str], address: str | None) -> None:
    read = read_settings(MayDoWithout, arguments, program="program", section="gui", environment={})
    assert read.address == address


@dataclass(frozen=True, kw_only=True)
class WithTwoWords(LoggingSettings):
    address: str = argument(help="where")
    target: str = argument(help="what")
    yes: bool = option(False, "-y", help="do not ask")
    timeout: float = option(60.0, "-t", unit=SECONDS, minimum=0.1, help="silence")
    names: tuple[str, ...] = option((), help="names")


@pytest.mark.parametrize(
    "arguments",
    [
        ["a", "b"],
        ["a", "--yes", "b"],
        ["--yes", "a", "-t", "3", "b"],
        ["a", "-t", "3", "--yes", "b", "--timeout=3"],
        ["a", "b", "-y", "--names", "x", "y"],
        ["a", "--names", "x", "y", "--yes", "b"],
        ["--names", "x", "y", "--", "a", "b"],
        ["a", "--yes", "--", "b"],
        ["a", "--names", "x", "y", "b"],
    ],
)
def test_options_may_stand_between_the_arguments(arguments: list[str]) -> None:
    read = read_settings(WithTwoWords, arguments, program="program", section="top", environment={})
    assert (read.address, read.target) == ("a", "b")
    assert read.yes is bool({"--yes", "-y"} & {*arguments})
    assert read.timeout == (3 if "-t" in arguments else 60)
    assert read.names == (("x", "y") if "--names" in arguments else ())


def test_a_name_that_begins_with_a_dash_stands_behind_two_dashes() -> None:
    for arguments in (["a", "--yes", "--", "-b"], ["--yes", "--", "a", "-b"]):
        read = read_settings(WithTwoWords, arguments, program="program", section="top", environment={})
        assert (read.address, read.target, read.yes) == ("a", "-b", True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a", "--bogus", "b"], "Unknown option --bogus."),
        (["a", "--bogus", "b", "c"], "Unknown option --bogus."),
        (["a", "--yes", "b", "c"], "Unexpected argument 'c'."),
        (["a", "--yes"], "Missing argument TARGET."),
        (["a", "b", "-t", "--"], "expected one argument"),
    ],
)
def test_bad_arguments_among_several(arguments: list[str], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        read_settings(WithTwoWords, arguments, program="program", section="top", environment={})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Missing argument ADDRESS. Run with -h for usage."),
        (["a", "b"], "Unexpected argument 'b'. Run with -h for usage."),
        (["a", "--protcted"], "Unknown option --protcted. Did you mean --protected?"),
        (["a", "--bogus=1"], "Unknown option --bogus. Run with -h for usage."),
        (["a", "--io-threads", "x"], "Cannot use --io-threads: 'x' is not a whole number. Give a whole number."),
        (["a", "-it", "0"], "Cannot use --io-threads: 0 is less than 1. Give 1 or more."),
        (["a", "-it", "65"], "Cannot use --io-threads: 65 is more than 64. Give 64 or less."),
        (["a", "--grace-seconds", "nan"], "--grace-seconds: 'nan' is not a number"),
        (["a", "--grace-seconds", "inf"], "--grace-seconds: 'inf' is not a number"),
        (["a", "-it"], "Cannot read the command line: argument --io-threads/-it: expected one argument."),
        (["a", "-e", "fast"], "Cannot use --event-loop: 'fast' is not one of builtin, uvloop. Give one of these."),
        (["a", "--protected=maybe"], "--protected: 'maybe' is not True or False"),
        (["a", "-ll", "loud"], "--logging-level"),
        (["a", "--config", "/nowhere.toml"], "Cannot read /nowhere.toml: No such file or directory."),
    ],
)
def test_bad_arguments(arguments: list[str], words: str) -> None:
    assert words in complaint(*arguments)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[scheduler]\nio-thread = 1", "[scheduler]. Did you mean io-threads?"),
        ("[schedular]\nio-threads = 1", "Unknown section [schedular]"),
        ("scheduler = 1", "it is not a section"),
        ("[[cluster]]\n[[cluster]]\n", "a file has one section [cluster]. Write the second one into another file"),
        ("[[manager]]\n[[manager]]\n", "give each of them a name of its own"),
        ('[[manager]]\nname = "a"\n[[manager]]\nname = "a"\n', "give each of them a name of its own"),
        ("manager = [1]\n", "it is not a section"),
        ("[scheduler]\nio-threads = true", "True is not a whole number"),
        ("[scheduler]\nprotected = 1", "1 is not True or False"),
        ("[scheduler]\nio-threads = [1]", "takes one value"),
        ("[scheduler", "is not a TOML file"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, words: str) -> None:
    assert words in complaint("a", "--config", config(tmp_path, text))


def test_a_bad_variable_is_named() -> None:
    assert "Cannot use SCALER_SCHEDULER_IO_THREADS: 'x'" in complaint(
        "a", environment={"SCALER_SCHEDULER_IO_THREADS": "x"}
    )


def test_help_names_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        read("-h")
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert text.index("--io-threads") < text.index("--logging-level"), "what all commands share comes last"
    for word in ("--config", "--protected", "-p", "--io-threads", "-it", "--worker-names", "ADDRESS", "100% busy"):
        assert word in text


@pytest.mark.parametrize(
    ("settings_class", "usage"),
    [(Settings, "usage: program [options] ADDRESS\n"), (MayDoWithout, "usage: program [options] [ADDRESS]\n")],
)
def test_usage_shows_what_is_required(settings_class: type, usage: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_settings(settings_class, ["-h"], program="program", section="gui", environment={})
    assert capsys.readouterr().out.startswith(usage)


def test_help_says_unit_and_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read("-h")
    text = " ".join(capsys.readouterr().out.split())
    for words in ("-t SECONDS", "Default: 60s.", "--memory BYTES", "Default: 1GiB.", "--path DIR"):
        assert words in text


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        read("--version")
    assert caught.value.code == 0
    assert capsys.readouterr().out == "program 1.2.3\n"


def test_units_are_accepted_from_every_source(tmp_path: Path) -> None:
    path = config(tmp_path, '[scheduler]\ntimeout = "500ms"\nmemory = 4096\n')
    settings = read("a", "--config", path)
    assert (settings.timeout, settings.memory) == (0.5, 4096)
    settings = read("a", environment={"SCALER_SCHEDULER_TIMEOUT": "2h", "SCALER_SCHEDULER_MEMORY": "4GiB"})
    assert (settings.timeout, settings.memory) == (7200.0, 4 << 30)
    settings = read("a", "-t", "30 s", "--memory", "500MB")
    assert (settings.timeout, settings.memory) == (30.0, 500_000_000)
    settings = read(*settings_arguments(Settings, {"address": "a", "timeout": "1.5min", "memory": "1kB"}))
    assert (settings.timeout, settings.memory) == (90.0, 1000)


def test_a_value_with_a_unit_is_checked() -> None:
    assert complaint("a", "-t", "50ms") == "Cannot use --timeout: 0.05 is less than 0.1. Give 0.1 or more."
    advice = "Give bytes, or a number with a unit (B, KiB, MB, MiB, GB, GiB, TB, TiB)."
    assert complaint("a", "--memory", "4GHz") == f"Cannot use --memory: '4GHz' is not a size. {advice}"


def test_a_mapping_is_a_list_of_amounts() -> None:
    [address, argument] = settings_arguments(Settings, {"address": "a", "capabilities": {"gpu": 2, "cpu": 1}})
    assert read(address, argument).capabilities == ("cpu=1", "gpu=2")


def test_arguments_of_values_give_the_values_back() -> None:
    values = {"address": "tcp://a:1", "protected": False, "tasks_waiting": -1, "worker_names": ("a", "b"), "path": None}
    settings = read(*settings_arguments(Settings, values))
    assert {name: getattr(settings, name) for name in values} == values


def test_arguments_of_an_unknown_setting() -> None:
    with pytest.raises(TypeError, match="nonsense"):
        settings_arguments(Settings, {"nonsense": 1})


def test_arguments_of_a_value_that_the_command_would_refuse() -> None:
    with pytest.raises(BadInput, match=r"^Cannot use --timeout: 0\.05 is less than 0\.1\. Give 0\.1 or more\.$"):
        settings_arguments(Settings, {"address": "a", "timeout": 0.05})


@pytest.mark.parametrize("name", ["pause", "resume", "drain", "kill", "restart", "stack", "output"])
def test_options_of_subcommands_may_stand_between_their_arguments(name: str) -> None:
    settings_class = SUBCOMMANDS[name].settings_class
    words = ["tcp://a:1", "--timeout", "3", "vm-3"]
    read = read_settings(settings_class, words, program="scaler", section=name, environment={})
    assert (read.address, read.timeout, words[-1]) == ("tcp://a:1", 3, getattr(read, "target", None) or read.worker)
