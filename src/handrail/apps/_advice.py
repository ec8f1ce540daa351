"""What to do about a finding, by its code: said to whoever has the agent in their hands."""

from __future__ import annotations

from handrail.errors import HttpError, TransportError, WireError

__all__ = ["advice_for", "advice_on"]

_ADVICE = {
    # what a client refuses: the rules of the protocol
    "P-24": "Send the field as the protocol has it: the right type, there if it is required, left out instead of null.",
    "P-30": "Give each chunk its id, or the subagentRunId that it belongs to.",
    "P-31": "Repeat a name, role or parent in a later chunk only as the first one had it.",
    "P-32": "Name the item in its first chunk: messageId, or toolCallId and toolCallName.",
    "P-36": "Begin each run with RUN_STARTED, end it once, and send nothing behind its end but another RUN_STARTED.",
    "P-37": "Send the END of everything that is open before RUN_FINISHED, also when the run stops to ask.",
    "P-38": "Answer under the threadId and the runId of the request, and give each question an id of its own.",
    "P-39": "Start an item once before it goes on or ends, and end it once.",
    "P-41": "Tag what belongs to a subagent with the subagentRunId that opened it, and with no other.",
    "decode": "Send each event as one JSON object with a type, in a data line of its own.",
    "transport": "See the agent's log, and that of any proxy in between, for why the connection broke.",
    "truncated": "End every run with RUN_FINISHED or RUN_ERROR before the body ends, also when something failed.",
    # what a client tolerates
    "activity": "Send an activity's snapshot before its patches, and patches that apply to it.",
    "call-id-reused": "Give each tool call an id of its own, for the whole thread.",
    "call-renamed": "Keep the name that a tool call began with.",
    "encoding": "Send UTF-8, and Content-Type: text/event-stream.",
    "encrypted-value": "Name a message or call that the thread has.",
    "event-after-end": "End the body behind the last RUN_FINISHED or RUN_ERROR.",
    "interrupt-lost": "Keep a question until it is answered, or answer for it with a new one.",
    "late-run-error": "Decide how a run ended before saying so; a client holds to RUN_FINISHED.",
    "legacy": "Send the event or field that took its place in AG-UI 1.0.",
    "legacy-interrupt": "Ask by the outcome of RUN_FINISHED (of ag-ui-langgraph: emit_interrupt_outcome).",
    "message-id-reused": "Give each answer a messageId of its own, for the whole thread.",
    "message-kind": "Keep the ids of messages apart, whatever their roles.",
    "message-restated": "Do not stream a message again that a snapshot has brought.",
    "null-read-as-absent": "Leave the field out instead of sending null.",
    "pending-id-unknown": "List only calls in pendingToolCallIds that were started and have no result.",
    "result-before-end": "Send TOOL_CALL_END before the call's result.",
    "result-without-call": "Give the result the toolCallId of a call that the thread has.",
    "run-id-mismatch": "Answer under the runId of the request.",
    "second-result": "Send one result for each tool call.",
    "snapshot-dropped-open": "Send a MESSAGES_SNAPSHOT only with everything in it that is being streamed.",
    "snapshot-dropped-turn": "Keep every message of the request, under its id, in MESSAGES_SNAPSHOT.",
    "state-delta": "Send a STATE_SNAPSHOT first, or patches that apply to the state of the request.",
    "tool-call-reopened": "Start each tool call once, under an id of its own.",
    "tool-rounds-exhausted": "Let the agent come to an end once its calls are answered.",
    "transport-after-end": "Close the body in good order behind the run's end.",
    "unfinished-frame": "End every event with an empty line.",
    "unknown-event": "Check the name of the event; what is meant for your own client goes into CUSTOM.",
    "unknown-property": "Check the name of the field, which is in camelCase; fields of your own go into metadata.",
    "unknown-value": "Send a value that AG-UI 1.0 knows.",
    "version": 'State protocolVersion as the version that is spoken, such as "1.0".',
    # what only a probe can see
    "bad-request": "Check the body before anything else, and answer with a status from 400 to 499.",
    "call-unanswered": "Send the result of each call of the agent's own; a client can only answer for its own tools.",
    "history": "Keep the id of every message: those of the request, and those that were streamed.",
    "question-again": "Take no for an answer.",
    "question-of-no-call": "Name the call that the question is about by the toolCallId that it was started with.",
    "question-unanswerable": "Ask with a responseSchema that a denial fits, and an expiresAt that is not over.",
    "run-error": "See the agent's log for why it failed.",
    "still-busy": "Notice that a client has gone, and stop its run; then the thread is free for the next one.",
    "stream-open": "End the body behind RUN_FINISHED or RUN_ERROR; a client has to wait for what may follow.",
    "timeout": "Send something from time to time, and an end; if the agent only needs longer, give --timeout.",
}

_BY_STATUS = {
    401: "The agent wants to know who asks; give --header 'Authorization: Bearer TOKEN'.",
    403: "The agent does not let this caller in; check --header, and what it is allowed.",
    404: "Check the path of the URL, and whether the agent knows what was asked.",
    405: "Check the path of the URL: an agent is asked by POST.",
    409: "Let a thread take its next run once the last one is over.",
    415: "Accept Content-Type: application/json.",
    422: "Accept the request as AG-UI 1.0 has it; the answer says what is missed.",
    429: "The agent limits how often it is asked; wait, and check it again.",
}


def advice_for(code: str) -> str:
    """What to do about a finding of this code; "" where the finding says it all."""
    return _ADVICE.get(code, "")


def advice_on(error: WireError) -> str:
    """What to do about what a client has run into."""
    match error:
        case HttpError(status=200, content_type=str(kind)) if "html" in kind:
            return "Check the path of the URL: this is a web page. An agent answers with text/event-stream."
        case HttpError(status=200):
            return "Check the path of the URL: an agent answers with Content-Type: text/event-stream."
        case HttpError(status=status) if 300 <= status < 400:
            return (
                "Check the path of the URL, its last slash too: the agent is elsewhere, and a client does not follow."
            )
        case HttpError(status=status) if status >= 500:
            return "See the agent's log for why it failed."
        case HttpError(status=status):
            return _BY_STATUS.get(status, "Answer a request of AG-UI with status 200 and an event stream.")
        case TransportError(phase="connect"):
            return "Check that the agent is still running."
        case _:
            return advice_for(getattr(error, "rule", error.kind))
