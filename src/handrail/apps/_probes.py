"""The probes of `handrail check URL`: what each does to an agent, and what it then asks of it.

A probe makes nothing happen that an agent would not do for anybody: it says something harmless, declares a tool without
effect, answers every question with no, goes away in the middle, sends nonsense. The rules are those of the client
(`_judge`); what is here is what has to be done for them to be put to the test.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import httpx
from ag_ui.core import Interrupt

from handrail.agui import abandon, deny
from handrail.agui._approvals import Given
from handrail.apps._bench import Bench, Talk
from handrail.apps._findings import Result
from handrail.apps._load import AnyTool
from handrail.apps._visible import clipped
from handrail.errors import ResumeError
from handrail.run._outcome import error_line
from handrail.tools import tool
from handrail.transcript import Failed, Finished, RunState

__all__ = ["LATER", "PROBES", "Plan", "Probe"]

LATER = "Thank you. Please say something else, in one short sentence."
_HELLO = "Hello! Please answer in one short sentence."
_TOOL = 'Please call the tool handrail_echo once, with the text "hello", and then say what it returned.'
_LONG = "Please count from one to a hundred, in words."
_NONSENSE = b"This is not JSON."
_MOST_ROUNDS = 3  # of questions that are answered


@dataclass(frozen=True, slots=True)
class Plan:
    """What a probe says first, and what later; the tools that it declares, () are its own."""

    text: str
    later: str
    tools: Sequence[AnyTool] = ()


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe: what it does, in a few words, and what it first says unless it is told otherwise."""

    does: str
    says: str
    go: Callable[[Bench, Plan], Awaitable[Result]]


@tool
def handrail_echo(text: str = "") -> str:
    """Give the text back. It has no effect; it shows that the tools of a client work."""
    return f"handrail heard: {text}"


async def _run(bench: Bench, plan: Plan) -> Result:
    """Say something, and hear the answer to its end."""
    state = await bench.send(bench.talk(), plan.text)
    _must_not_fail(bench, state, "the run")
    return await bench.result("run")


async def _history(bench: Bench, plan: Plan) -> Result:
    """Go on with a thread: every message, sent or streamed, keeps its id."""
    talk = next((talk for talk in bench.talks if talk.session.transcript.run.ok), None)
    if talk is None:
        talk = bench.talk()
        await bench.send(talk, plan.text)
    if not talk.session.transcript.run.ok:
        return await bench.result("history", "there was no first turn to go on from", "not-offered")
    sent = [message.id for message in talk.session.messages]
    state = await bench.send(talk, plan.later)
    kept = [message.id for message in talk.session.messages]
    lost = [name for name in dict.fromkeys([*sent, *talk.streamed]) if name not in kept]
    if lost:
        words = "1 message did" if len(lost) == 1 else f"{len(lost)} messages did"
        bench.find("warning", "history", f"{words} not keep the id it was sent or streamed with: {_listed(lost)}")
    _must_not_fail(bench, state, "the second turn")
    return await bench.result("history", f"{len(kept)} messages in 2 turns")


async def _client_tool(bench: Bench, plan: Plan) -> Result:
    """Offer a tool of the client, run it if it is called, and hear what the agent makes of the result."""
    talk = bench.talk(plan.tools or [handrail_echo])
    names = [one.name for one in talk.session.tools]
    state = await bench.send(talk, plan.text)
    calls = talk.calls_of(names)
    if not calls:
        return await bench.result("tool", f"the agent did not call {' or '.join(names)}", "not-offered")
    called = f"{calls[0].name} was called"
    if talk.session.pending_interrupts:
        return await bench.result("tool", f"{called}, and the agent asks before it goes on", "not-offered")
    if not any(call.local for call in calls):
        by = "the agent answered it itself" if calls[0].result is not None else "it was not for this client to run"
        return await bench.result("tool", f"{called}, and {by}", "not-offered")
    _must_not_fail(bench, state, "the run that was given the result")
    return await bench.result("tool", f"{called}, its result was sent")


async def _interrupt(bench: Bench, plan: Plan) -> Result:
    """Answer the questions of an agent with no, and see that it comes to an end."""
    talk = next((talk for talk in bench.talks if talk.session.pending_interrupts), None)
    if talk is None and not bench.talks:
        talk = bench.talk()
        await bench.send(talk, plan.text)
    if talk is None or not talk.session.pending_interrupts:
        return await bench.result("interrupt", "no run stopped to ask", "not-offered")
    asked = len(talk.session.pending_interrupts)
    answered = "1 question" if asked == 1 else f"{asked} questions"
    for _ in range(_MOST_ROUNDS):
        _must_be_of_this_thread(bench, talk)
        try:
            state = await _say_no(bench, talk)
        except ResumeError as refusal:
            bench.find("error", "question-unanswerable", f"the questions cannot be answered: {refusal}")
            return await bench.result("interrupt")
        _must_not_fail(bench, state, "the run that was given the answer")
        if not isinstance(state, Finished) or not talk.session.pending_interrupts:
            return await bench.result("interrupt", f"{answered} answered with no")
    bench.find("warning", "question-again", f"the agent asks again after {_MOST_ROUNDS} answers")
    return await bench.result("interrupt", f"{answered} answered with no")


async def _disconnect(bench: Bench, plan: Plan) -> Result:
    """Go away in the middle of an answer; the agent then serves the same thread, and another."""
    talk = bench.talk()
    if not await bench.send_and_leave(talk, plan.text):
        return await bench.result("disconnect", "the answer was over before it could be left", "not-offered")
    served: list[str] = []
    for thread, which in ((talk, "the same thread"), (bench.talk(), "another")):
        waited = await bench.send_when_free(thread, plan.later)
        served.append(f"{which} not at all" if waited is None else f"{which} in {waited:.1f} s")
        _must_not_fail(bench, thread.session.transcript.run, f"after its client had gone, a run on {which}")
    return await bench.result("disconnect", f"then {', '.join(served)}")


async def _bad_request(bench: Bench, plan: Plan) -> Result:
    """Send what is no JSON; it is refused with a status of its own, and not with a stream."""
    try:
        status, kind = await bench.post(_NONSENSE)
    except (TimeoutError, httpx.TransportError) as error:
        bench.find("error", "bad-request", f"a body that is no JSON had no answer: {error_line(error)}")
        return await bench.result("bad-request")
    if not 400 <= status < 500 or kind.startswith("text/event-stream"):
        words = f"a body that is no JSON was answered with HTTP {status}, Content-Type {kind or 'unknown'}"
        bench.find("error", "bad-request", words)
    return await bench.result("bad-request", f"answered with HTTP {status}")


PROBES: dict[str, Probe] = {
    "run": Probe("a plain run", _HELLO, _run),
    "history": Probe("a second turn on the thread", _HELLO, _history),
    "tool": Probe("a tool of the client", _TOOL, _client_tool),
    "interrupt": Probe("a question, answered with no", _HELLO, _interrupt),
    "disconnect": Probe("a client that goes away", _LONG, _disconnect),
    "bad-request": Probe("a body that is no JSON", "", _bad_request),
}
"""In the order in which they are made: later ones go on with what earlier ones began."""


async def _say_no(bench: Bench, talk: Talk) -> RunState | None:
    """Deny what is about a call, and give the other questions up, as well as those that take no denial."""
    questions = talk.session.pending_interrupts
    denied: dict[str, Given] = {one.id: deny(one) for one in questions if one.tool_call_id or _is_older(one)}
    answers = {one.id: denied.get(one.id, abandon(one)) for one in questions}
    try:
        return await bench.have(talk, lambda: talk.session.resume(answers.values()))
    except ResumeError as refusal:
        refused = {*refusal.expired, *(name for name, _, _ in refusal.invalid)}
        answers |= {name: abandon(name) for name in refused}
        return await bench.have(talk, lambda: talk.session.resume(answers.values()))


def _must_be_of_this_thread(bench: Bench, talk: Talk) -> None:
    for question in talk.session.pending_interrupts:
        if question.tool_call_id is not None and question.tool_call_id not in talk.call_ids():
            words = f"question {question.id} is about call {question.tool_call_id}, which the thread does not have"
            bench.find("warning", "question-of-no-call", words)


def _is_older(interrupt: Interrupt) -> bool:
    """Whether it came by an older channel, on which nothing can be given up."""
    return bool((interrupt.metadata or {}).get("legacy"))


def _must_not_fail(bench: Bench, state: RunState | None, what: str) -> None:
    """A run may fail, if the agent says so; but not what it does well elsewhere."""
    if isinstance(state, Failed) and state.kind == "agent":
        level = "error" if bench.has_finished else "warning"
        bench.find(level, "run-error", f"{what} failed, and the agent says so: {_words(state)}")


def _words(state: Failed) -> str:
    return clipped(state.message, 200) + (f" ({state.code})" if state.code else "")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
