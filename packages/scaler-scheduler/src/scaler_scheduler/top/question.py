"""An action on the cluster that its user has begun to ask for: its target and its value are typed if they are missing,
then it is confirmed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from scaler_protocol.messages import ControlAction
from scaler_protocol.monitor.operation import (
    ACTION_LABELS,
    ACTIONS_OF_TABLE,
    TARGET_LIMIT,
    VALUE_LABELS,
    Action,
    LookAction,
    Operation,
    needs_confirmation,
    question_of,
    read_value,
)

KEYS: Mapping[str, tuple[Action, ...]] = {
    "b": (LookAction.STACK,),
    "F": (LookAction.PROFILE_FUNCTION, LookAction.PROFILE_CLIENT, LookAction.PROFILE_WORKER),
    "x": (
        ControlAction.CANCEL_TASK,
        ControlAction.CANCEL_GRAPH,
        ControlAction.CANCEL_CLIENT,
        ControlAction.CANCEL_FUNCTION,
    ),
    "X": (ControlAction.CANCEL_FUNCTION,),
    "p": (ControlAction.PAUSE,),
    "u": (ControlAction.RESUME,),
    "D": (ControlAction.DRAIN,),
    "R": (ControlAction.RESTART_WORKER,),
    "K": (ControlAction.KILL_WORKER,),
    "P": (ControlAction.SET_CLIENT_PRIORITY, ControlAction.SET_FUNCTION_PRIORITY),
    "W": (ControlAction.SET_CLIENT_WEIGHT,),
    "G": (ControlAction.SET_GROUP_WEIGHT,),
    "L": (ControlAction.SET_GROUP_LIMIT,),
}
"""The first of these actions that a page has."""

_PROMPTS: dict[Action, str] = {
    LookAction.STACK: "stack of (worker): ",
    LookAction.PROFILE_WORKER: "profile of (worker): ",
    ControlAction.PAUSE: "pause (host, agent or worker): ",
    ControlAction.RESUME: "resume (host, agent or worker): ",
    ControlAction.DRAIN: "drain (host, agent or worker): ",
    ControlAction.RESTART_WORKER: "restart the process of (worker): ",
    ControlAction.KILL_WORKER: "kill the process of (worker): ",
}
"""The prompts of actions whose target is typed on a page without a cursor."""

_VALUE_LIMIT = 20


@dataclass(frozen=True, slots=True)
class Question:
    """``typed``: the value so far. ``is_refused``: it was entered, and is not a number."""

    operation: Operation
    stage: Literal["target", "value", "confirmation"] = "confirmation"
    typed: str = ""
    is_confirmed: bool = False
    is_refused: bool = False

    @property
    def is_typing(self) -> bool:
        return self.stage != "confirmation"

    @property
    def text(self) -> str:
        """The text of the status line about it."""
        action = self.operation.action
        if self.stage == "target":
            return f"{_PROMPTS[action]}{self.operation.target}_"
        if self.stage == "value":
            return f"{VALUE_LABELS[action]}: {self.typed}_" + ("  (not a number)" if self.is_refused else "")
        return f"{question_of(self.operation)} (y/n)"

    def pressed(self, key: str) -> Question | None:
        """The question after a key; None: it is withdrawn."""
        if self.stage == "confirmation":
            return replace(self, is_confirmed=True) if key in ("y", "Y") else None
        if key == "escape":
            return None
        if key == "enter":
            return self._entered()
        text, limit = (self.operation.target, TARGET_LIMIT) if self.stage == "target" else (self.typed, _VALUE_LIMIT)
        if key == "backspace":
            return self._with_text(text[:-1])
        return self._with_text(text + key) if len(key) == 1 and key.isprintable() and len(text) < limit else self

    def _entered(self) -> Question | None:
        if self.stage == "target":
            is_confirmed = not needs_confirmation(self.operation)
            return replace(self, stage="confirmation", is_confirmed=is_confirmed) if self.operation.target else None
        number = read_value(self.typed)
        if number is None:
            return replace(self, is_refused=True) if self.typed else None
        return replace(self, stage="confirmation", is_refused=False, operation=replace_value(self.operation, number))

    def _with_text(self, text: str) -> Question:
        if self.stage == "value":
            return replace(self, typed=text, is_refused=False)
        return replace(self, operation=Operation(self.operation.action, text))


def keys_texts(targets: Mapping[Action, str]) -> list[str]:
    """The keys that begin these actions, and what each does, in a few words."""
    found: dict[Action, str] = {}
    for key, actions in KEYS.items():
        action = next((each for each in actions if each in targets), None)
        if action is not None:
            found.setdefault(action, f"{key} {ACTION_LABELS[action].lower()}")
    return list(found.values())


def replace_value(operation: Operation, number: float) -> Operation:
    return Operation(operation.action, operation.target, number)


def question_for(page: str | None, key: str, targets: Mapping[Action, str]) -> Question | None:
    """The question that ``key`` begins on a page; None: that of a single thing. ``targets``: of the row under the
    cursor, empty without a cursor, or of the thing. None: the key has another meaning there."""
    offered: Collection[Action] = targets if page is None else ACTIONS_OF_TABLE.get(page, {})
    action = next((each for each in KEYS.get(key, ()) if each in offered), None)
    if action is None:
        return None
    if action in targets:
        question = Question(Operation(action, targets[action]), "value" if action in VALUE_LABELS else "confirmation")
        return question if needs_confirmation(question.operation) else replace(question, is_confirmed=True)
    return Question(Operation(action, ""), "target") if action in _PROMPTS else None
