"""The actors of ended tasks: in the task log, on the pages of tasks, and with failures."""

from __future__ import annotations

import json

from scaler_protocol.ids import shown_id
from scaler_protocol.messages import Status, TaskOptions
from scaler_protocol.monitor import links, records
from scaler_protocol.monitor.entities import page_of
from scaler_protocol.monitor.failures import details_text
from scaler_protocol.monitor.links import EntityLink
from scaler_protocol.monitor.messages import Events
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.records import Kind, Naming
from scaler_protocol.monitor.tables import TABLES

SECOND = 1_000_000
OWNER, OTHER = b"\x01" * 16, b"\x02" * 16
OPTIONS = {
    1: TaskOptions(hosts_actor=True, actor_name="ledger"),
    2: TaskOptions(hosts_actor=True),
    3: TaskOptions(actor=1, rerun=False),
    4: TaskOptions(actor=2, rerun=False),
    5: TaskOptions(actor=1, actor_session=OWNER, rerun=False),
    6: TaskOptions(hosts_actor=True, actor_name="audit"),
    7: TaskOptions(actor=4, rerun=False),
    8: TaskOptions(),
}
TASKS = [(0, 1, 1), (0, 2, 2), (0, 3, 8), (0, 4, 6), (0, 10, 3), (0, 11, 4), (0, 12, 3), (0, 13, 7), (1, 7, 5)]
"""Session, number and options. Task 1 makes the actor ``ledger``, task 4 ``audit``, and task 2 one without a name. A
call of ``ledger`` comes from another client."""


def model() -> Model:
    """All tasks have ended."""
    payload = json.dumps({"signal": "SIGKILL"}).encode()
    some = [
        *(
            records.name_record(Naming.SESSION, number, {"session": shown_id(each).hex(), "host": "h", "pid": number})
            for number, each in enumerate((OWNER, OTHER))
        ),
        records.name_record(Naming.AGENT, 0, {"session": "ef" * 16, "name": "h", "host": "h", "workers": []}),
        records.name_record(Naming.FUNCTION, 0, {"name": "add"}),
        *(records.name_record(Naming.OPTIONS, each, records.options_value(OPTIONS[each])) for each in OPTIONS),
        *(
            records.record(
                Kind.SUBMITTED, time=SECOND, session=session, first=task, count=1, function=0, attempt=options
            )
            for session, task, options in TASKS
        ),
        *(
            records.ended_record(
                [task], [SECOND], [1], [0], time=2 * SECOND, session=session, function=0, agent=0, worker=task
            )
            for session, task, _ in TASKS
        ),
        records.failed_record(Status.PROCESSOR_DIED, payload, time=SECOND, session=1, task=7, attempt=1, function=0),
    ]
    made = Model(0.0)
    made.apply(Events(10.0, 0, b"".join(some), 0, len(some), 1), 0.0)
    return made


def shown(filter_text: str = "", **order: object) -> list[tuple[int, str]]:
    """The tasks in the log, with their actors."""
    rows, total = model().rows("tasks", filter_text, **order)  # type: ignore[arg-type]
    task, actor = map(TABLES["tasks"].index, ("task", "actor"))
    assert total == len(rows)
    return [(row[task], row[actor]) for row in rows]


def test_the_task_log_names_actors() -> None:
    assert shown(sort_key="task", descending=False) == [
        (1, "ledger"), (2, ""), (3, ""), (4, "audit"), (7, "ledger"), (10, "ledger"), (11, ""), (12, "ledger"),
        (13, "audit"),
    ]  # fmt: skip


def test_the_task_log_can_be_searched_for_the_name_of_an_actor() -> None:
    assert {task for task, _ in shown("LEDG")} == {1, 7, 10, 12}
    assert shown("nothing") == []
    assert (12, "ledger") in shown("12")


def test_the_task_log_is_sorted_by_the_names_of_actors() -> None:
    names = [actor for _, actor in shown(sort_key="actor", descending=True)]
    assert names == ["ledger"] * 4 + ["audit"] * 2 + [""] * 3
    assert [actor for _, actor in shown(sort_key="actor", descending=False)] == names[::-1]
    assert [actor for _, actor in shown("ledger", sort_key="actor", descending=True)] == ["ledger"] * 4


def facts_of(session: bytes, task: int) -> dict[str, tuple[str, EntityLink | None]]:
    page = page_of(model(), EntityLink(links.TASK, (session.hex()[:8], str(task))))
    assert page is not None
    return {fact.name: (fact.text, fact.link) for fact in page.facts if "actor" in fact.name}


def test_the_page_of_a_call_leads_to_its_actor() -> None:
    maker = EntityLink(links.TASK, (OWNER.hex()[:8], "1"))
    assert facts_of(OWNER, 10) == facts_of(OTHER, 7) == {"actor": ("ledger", maker)}
    assert facts_of(OWNER, 11) == {"actor": ("task 2", EntityLink(links.TASK, (OWNER.hex()[:8], "2")))}
    assert facts_of(OWNER, 3) == {}
    assert facts_of(OWNER, 1) == {"actor name": ("ledger", None)}


def test_failures_name_the_actor() -> None:
    (group,) = model().activity.failures.groups
    assert "attempt 1: add of actor ledger on no worker" in details_text(group)
