"""Whoever watches a session may write into what he is given: nothing of that reaches what the session keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import count
from typing import Any

from ag_ui.core import AssistantMessage, BaseEvent, FunctionCall, RunAgentInput, TextPart, ToolCall, UserMessage
from tests.client.kit import Agent, R
from tests.client.spoiling import SPOILED, spoil
from tests.transcript.events import (
    acd,
    acs,
    activity,
    answered,
    asks,
    ca,
    call,
    ce,
    cr,
    cs,
    custom,
    encrypted,
    error,
    ms,
    question,
    raw,
    reasoned,
    result,
    rf,
    rs,
    said,
    sd,
    ss,
    tc,
    te,
    text,
    thought,
    ts,
)

from handrail import (
    AgentReport,
    AgentSession,
    Loop,
    LoopAgent,
    RunDriver,
    RunParams,
    RunState,
    TranscriptReducer,
    answer,
    drive,
)
from handrail.client import AgentRun
from handrail.testing import ScriptedBackend
from handrail.testing import call as calls
from handrail.testing import text as says

PARTS = [{"type": "text", "text": "two"}, {"type": "image", "source": {"type": "url", "value": "http://x/i.png"}}]


def noted(id: str, **metadata: Any) -> list[BaseEvent]:
    """A message whose metadata comes in two pieces, with objects in it."""
    start = ts(id).model_copy(update={"metadata": {"a": {"deep": [1, {"deeper": 2}]}}})
    piece = tc(id, "words").model_copy(update={"metadata": metadata})
    return [start, piece, te(id)]


GIVEN = [said("u0", PARTS), answered("a0", "before", ("c0", "{}")), result("t0", "c0", PARTS)]
FIRST: list[Any] = [
    rs(R, input=RunAgentInput(thread_id="t", run_id="r", messages=GIVEN)),
    raw({"deep": [1]}),
    custom("anything", {"deep": {"er": [1]}}),
    thought("q1", "hm"),
    encrypted("message", "q1", "sealed"),
    noted("a1", b={"deep": [1]}),
    call("c1", '{"path": {"to": ["x"]}}', parent="a1"),
    cr("c1", PARTS, metadata={"m": {"deep": [1]}}),
    call("c2", '{"n": [1]}', name="ours"),
    call("c2b", '{"n": []}', name="ours"),
    acs("act", {"plan": {"steps": [{"name": "one"}]}}),
    acd("act", {"op": "add", "path": "/plan/steps/-", "value": {"name": "two"}}),
    ss({"list": [1, {"deep": 2}], "keep": {"k": [1]}}),
    sd({"op": "add", "path": "/added", "value": {"deep": [3]}}),
    sd({"op": "add", "path": "/added/deep/-", "value": {"x": [4]}}),
    rf(R, result={"deep": [1]}),
]
SECOND: list[Any] = [
    rs(R),
    ms(
        said("u1", "go"),
        reasoned("q1", "hm", "sealed"),
        AssistantMessage(
            id="a1",
            content="words",
            metadata={"a": {"deep": [1]}},
            tool_calls=[ToolCall(id="c1", function=FunctionCall(name="look", arguments='{"path": {"to": ["x"]}}'))],
        ),
        result("t1", "c1", PARTS),
        activity("act2", {"shown": {"deep": [1]}}),
    ),
    acd("act2", {"op": "replace", "path": "/shown/deep", "value": [{"new": 1}]}),
    sd({"op": "replace", "path": "/keep/k", "value": [{"z": 1}]}),
    call("c3", "{}"),
    asks(
        R, question("i1", "c3", metadata={"args": {"deep": [1]}}, response_schema={"type": "object", "properties": {}})
    ),
]
THIRD: list[Any] = [rs(R), text("a3", "half"), error("no")]
LAST: list[Any] = [rs(R), text("a4", "whole"), sd({"op": "remove", "path": "/list"}), rf(R)]


class Watched(Agent):
    """An agent whose runs are read by somebody else as well, and who has his way with what he is asked."""

    def __init__(self, *streams: Any, watch: Callable[[Any], object]) -> None:
        super().__init__(*streams)
        self.watch = watch
        self.asked: list[dict[str, Any]] = []

    def start(self, input: RunAgentInput, /) -> AgentRun:
        run = super().start(input)
        self.asked.append(input.model_dump())
        self.watch(input)
        run.events.subscribe(self.watch)
        return run


class Watcher:
    """Looks at everything, and does the same to all of it."""

    def __init__(self, watch: Callable[[Any], object]) -> None:
        self.watch = watch
        self.agent = Watched(FIRST, LAST, SECOND, THIRD, LAST, LAST, watch=watch)
        numbers = count()
        self.told: list[Any] = []
        self.session = AgentSession(
            self.agent,
            thread_id="t",
            tools=[self.ours],
            on_warning=self.told.append,
            new_id=lambda: f"id{next(numbers)}",
            state={"begin": [1]},
        )
        self.session.subscribe(watch)
        self.session.subscribe_events(lambda event: (watch(event), self.look()))
        self.part = TextPart(text="mine")

    def ours(self, n: list[int]) -> Any:
        is_list = bool(n)
        self.watch(n)
        return [self.part] if is_list else self.part

    def look(self) -> None:
        session = self.session
        for value in (
            session.messages,
            session.state,
            session.transcript,
            session.pending_interrupts,
            session.owed_answers,
            session.warnings,
            session.dump(),
            *(event for run in self.agent.runs for event in run.events.so_far()),
            *(run.result.value for run in self.agent.runs if run.is_done),
            *(run.report for run in self.agent.runs if run.is_done),
        ):
            self.watch(value)

    async def step(self, ask: Callable[[], Any], *given: Any) -> dict[str, Any]:
        """Make a call; then spoil what it was given, and look; what there is to see then."""
        state: RunState = await ask()
        seen = repr(state)
        self.watch(state)
        self.watch(list(given))
        for run in self.agent.runs:
            await run.drained
        self.watch(self.part)
        self.part = TextPart(text="mine")
        self.look()
        session = self.session
        return {
            "state": seen,
            "again": repr(session.transcript.run),
            "dump": session.dump(),
            "transcript": repr(session.transcript),
            "messages": [message.model_dump() for message in session.messages],
            "asked": deepcopy(self.agent.asked),
            "questions": repr(session.pending_interrupts),
            "owed": repr(session.owed_answers),
            "shared": session.state,
            "reports": [repr(_seen(run.report)) for run in self.agent.runs],
            "warnings": [warning.code for warning in self.told],
        }

    async def everything(self) -> list[dict[str, Any]]:
        session = self.session
        turn = UserMessage(id="u1", content="go")
        params = RunParams(forwarded_props={"deep": [1]})
        entry = answer("i1", {"deep": [1]})
        return [
            await self.step(lambda: session.send(turn, params), turn, params.forwarded_props),
            await self.step(lambda: session.send("on")),
            await self.step(lambda: session.resume([entry]), entry.value),
            await self.step(session.run),
            await self.step(lambda: session.send("more")),
        ]


def _seen(report: AgentReport) -> tuple[Any, ...]:
    return (report.state, report.messages, report.result, report.usage)


async def test_what_watchers_write_stays_with_them() -> None:
    """S-143, S-146, S-6, S-54: two equal conversations, and in one of them everything that was given out is spoiled."""
    clean = await Watcher(lambda value: None).everything()
    spoiled = await Watcher(spoil).everything()
    for one, other in zip(clean, spoiled, strict=True):
        for name, value in one.items():
            assert other[name] == value, name
    assert SPOILED not in str(spoiled)
    assert len(clean[-1]["asked"]) == 6
    assert "sealed" in str(clean[-1]["asked"])


class Bare:
    """An agent of somebody else's, whose run publishes the very events that it goes on holding."""

    def __init__(self, *streams: Any, watch: Callable[[Any], object]) -> None:
        self.streams = [_flat(stream) for stream in streams]
        self.watch = watch
        self.asked: list[dict[str, Any]] = []

    def start(self, input: RunAgentInput) -> Any:
        self.asked.append(input.model_dump())
        events = [event.model_copy(deep=True) for event in self.streams.pop(0)]

        async def body(driver: RunDriver[Any]) -> None:
            for event in events:
                if event.type.value.startswith("RUN_"):
                    event.run_id = input.run_id
                driver.emit(event)
            driver.finish(None, outcome="completed")

        self.events = events
        return drive(body, verdict=lambda event: None)


async def test_what_an_agent_of_somebody_elses_goes_on_holding_is_copied() -> None:
    """S-154: its events are everybody's; what they become later reaches nothing."""
    dumps: list[Any] = []
    for watch in (lambda value: None, spoil):
        agent = Bare(FIRST[1:], SECOND, watch=watch)
        numbers = count()
        session = AgentSession(agent, thread_id="t", new_id=lambda numbers=numbers: f"id{next(numbers)}")
        for word in ("go", "on"):
            await session.send(word)
            watch(agent.events)
        dumps.append((session.dump(), agent.asked, repr(session.transcript)))
    assert dumps[0] == dumps[1]


def test_what_a_reducer_was_given_may_change() -> None:
    """S-124: the transcripts that it gave, and those to come, do not."""
    seen: list[Any] = []
    for watch in (lambda value: None, spoil):
        reducer = TranscriptReducer()
        transcripts: list[Any] = []
        replayed = [rs(R), cs("c1"), ca("c1", "{}"), cr("c1", PARTS), ce("c1"), rf(R)]
        for event in _flat([*FIRST, *SECOND, *LAST, *replayed]):
            own = event.model_copy(deep=True)
            transcripts.append(reducer.accept(own))
            watch(own)
            watch(transcripts[-1])
        seen.append([repr(transcript) for transcript in transcripts])
    assert seen[0] == seen[1]


async def test_a_session_is_loaded_from_data_that_may_change() -> None:
    """S-6, S-150: so are the messages that one begins with."""
    seen: list[Any] = []
    data = (await Watcher(lambda value: None).everything())[2]["dump"]
    assert data["pending_interrupts"]
    assert data["owed"]
    for watch in (lambda value: None, spoil):
        given = deepcopy(data)
        session = AgentSession.load(Agent(), given)
        watch(given)
        seen.append((session.dump(), repr(session.transcript)))
        begun = [message.model_copy(deep=True) for message in GIVEN]
        session = AgentSession(Agent(), thread_id="t", messages=begun)
        watch(begun)
        seen[-1] += (session.dump(), repr(session.transcript))
    assert seen[0] == seen[1]
    assert seen[0][0] == data


async def test_a_loop_in_process() -> None:
    """S-156: what is done to the events of its agent reaches neither the model nor the history."""
    seen: list[Any] = []
    for watch in (lambda value: None, spoil):
        numbers = count()

        def new_id(numbers: Any = numbers) -> str:
            return f"id{next(numbers)}"

        def parts() -> list[TextPart]:
            return [TextPart(text="part")]

        backend = ScriptedBackend([calls("parts", id="c1"), says("one"), says("two")])
        agent = LoopAgent(Loop([backend], tools=[parts], new_id=new_id))
        session = AgentSession(agent, thread_id="t", new_id=new_id)
        session.subscribe_events(watch)
        for word in ("go", "on"):
            await session.send(word)
            watch(session.messages)
        asked = [[message.model_dump() for message in request.messages] for request in backend.requests]
        seen.append((session.dump()["messages"], asked))
    assert seen[0] == seen[1]
    assert "part" in str(seen[0])


def _flat(stream: Iterable[Any]) -> list[BaseEvent]:
    return [one for part in stream for one in (part if isinstance(part, list) else [part])]
