"""An action on the cluster that its user has begun to ask for: first its target is typed, then it is confirmed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scaler_protocol.messages import ControlAction
from scaler_protocol.monitor.operation import ACTIONS_OF_TABLE, TARGET_LIMIT, Operation, question_of

KEYS = {
    "p": ControlAction.PAUSE,
    "u": ControlAction.RESUME,
    "D": ControlAction.DRAIN,
}
"""Keys for actions on workers. On a page without a cursor on a host, the target is typed."""

_PROMPTS = {
    ControlAction.PAUSE: "pause (host, agent or worker): ",
    ControlAction.RESUME: "resume (host, agent or worker): ",
    ControlAction.DRAIN: "drain (host, agent or worker): ",
}


@dataclass(frozen=True, slots=True)
class Question:
    operation: Operation
    is_typing: bool = False
    is_confirmed: bool = False

    @property
    def text(self) -> str:
        """The text of the status line about it."""
        if self.is_typing:
            return f"{_PROMPTS[self.operation.action]}{self.operation.target}_"
        return f"{question_of(self.operation)} (y/n)"

    def pressed(self, key: str) -> Question | None:
        """The question after a key; None: it is withdrawn."""
        if self.is_typing:
            return self._typed(key)
        return replace(self, is_confirmed=True) if key in ("y", "Y") else None

    def _typed(self, key: str) -> Question | None:
        target = self.operation.target
        if key == "enter":
            return replace(self, is_typing=False) if target else None
        if key == "escape":
            return None
        if key == "backspace":
            return self._with_target(target[:-1])
        if len(key) == 1 and key.isprintable() and len(target) < TARGET_LIMIT:
            return self._with_target(target + key)
        return self

    def _with_target(self, target: str) -> Question:
        return replace(self, operation=Operation(self.operation.action, target))


def question_for(page: str, key: str, target: str) -> Question | None:
    """The question that ``key`` begins on a page. ``target``: the name in the row under the cursor, empty without a
    cursor. None: the key has another meaning there."""
    actions = ACTIONS_OF_TABLE.get(page, ())
    if key == "x" and target and actions and actions[0] not in _PROMPTS:
        return Question(Operation(actions[0], target))
    if key in KEYS and KEYS[key] in actions:
        return Question(Operation(KEYS[key], target), is_typing=not target)
    return None
