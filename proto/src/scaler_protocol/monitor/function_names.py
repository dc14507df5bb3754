"""The names of functions for people. Where functions of several modules have one name, it includes the module."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

from scaler_protocol.monitor.bounds import NAMES_LIMIT
from scaler_protocol.monitor.messages import (
    ActorStatus,
    FunctionStatus,
    MapStatus,
    RunningTaskStatus,
    Snapshot,
    WaitGroup,
)


class FunctionNames:
    """The names that functions have, and the modules that these are in. The oldest names are forgotten when there are
    too many."""

    def __init__(self) -> None:
        self._modules: OrderedDict[str, str | None] = OrderedDict()
        """By name, the module; None: there are several."""

        self.are_ambiguous = False
        """Whether any two modules have functions of one name."""

    def add(self, name: str, module: str) -> None:
        """There is a function with this name; ``module`` is empty if its module is not known."""
        known = self._modules.setdefault(name, module)
        if known is not None and known != module:
            self._modules[name], self.are_ambiguous = None, True
        if len(self._modules) > NAMES_LIMIT:
            self._modules.popitem(last=False)

    def shown(self, name: str, module: str) -> str:
        """Return the name, after that of the module and a dot if other modules have functions of the same name."""
        is_ambiguous = self.are_ambiguous and module and self._modules.get(name, module) is None
        return f"{module}.{name}" if is_ambiguous else name

    def with_shown_names(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with names for people. Its functions are added."""
        for function in snapshot.functions:
            self.add(function.name, function.module)
        if not self.are_ambiguous:
            return snapshot
        agents = (
            replace(agent, running=tuple(map(self._shown_call, agent.running))) if agent.running else agent
            for agent in snapshot.agents
        )
        return replace(
            snapshot,
            agents=tuple(agents),
            functions=tuple(map(self._shown_function, snapshot.functions)),
            waits=tuple(map(self._shown_wait, snapshot.waits)),
            maps=tuple(map(self._shown_map, snapshot.maps)),
            actors=tuple(map(self._shown_actor, snapshot.actors)),
        )

    def _shown_function(self, function: FunctionStatus) -> FunctionStatus:
        name = self.shown(function.name, function.module)
        return function if name == function.name else replace(function, name=name)

    def _shown_call(self, call: RunningTaskStatus) -> RunningTaskStatus:
        return replace(call, function=self.shown(call.function, call.module))

    def _shown_wait(self, wait: WaitGroup) -> WaitGroup:
        return replace(wait, function=self.shown(wait.function, wait.module))

    def _shown_actor(self, actor: ActorStatus) -> ActorStatus:
        return replace(actor, function=self.shown(actor.function, actor.module))

    def _shown_map(self, status: MapStatus) -> MapStatus:
        return replace(status, function=self.shown(status.function, status.module))
