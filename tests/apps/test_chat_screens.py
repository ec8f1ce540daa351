"""Whole screens, as they were found good: `screens/` has them as text."""

from __future__ import annotations

from typing import Any

import pytest
from tests.apps.chatting import calls, chat, check_screen, finished, says, shows, started, write

from handrail.testing import gate

SIZES = [(80, 24), (200, 50)]
ANSWER = """
Here is what I found:

1. **Rome** is *warm*
2. Oslo is `cold`

| city | degrees |
|------|---------|
| Rome | 21      |

```python
print("bring a coat")
```
"""
REASONING = [
    {"type": "REASONING_START", "messageId": "s"},
    {"type": "REASONING_MESSAGE_START", "messageId": "t1", "role": "reasoning"},
    {"type": "REASONING_MESSAGE_CONTENT", "messageId": "t1", "delta": "a thought"},
    {"type": "REASONING_MESSAGE_END", "messageId": "t1"},
    {"type": "REASONING_END", "messageId": "s"},
]
ACTIVITY = {"type": "ACTIVITY_SNAPSHOT", "messageId": "a1", "activityType": "PLAN", "content": {"steps": ["look"]}}
QUESTIONS = [
    {"id": "i1", "reason": "tool_call", "message": "May I delete it?", "toolCallId": "c1", "responseSchema": {
        "type": "object", "properties": {"approved": {"type": "boolean"}, "editedArgs": {"type": "object"}}}},
    {"id": "i2", "reason": "input", "message": "Which colour, and how many?", "responseSchema": {
        "type": "object", "required": ["colour", "count"], "properties": {
            "colour": {"enum": ["red", "green"]}, "count": {"type": "integer", "minimum": 1}}}},
]  # fmt: skip


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def name(kind: str, size: tuple[int, int]) -> str:
    return f"{kind}-{size[0]}x{size[1]}"


@pytest.mark.parametrize("size", SIZES)
async def test_an_answer(size: tuple[int, int]) -> None:
    stream = [started(), *REASONING, *calls("c1", "weather", '{"city": "Rome"}', "21 degrees"), ACTIVITY]
    usage = [{"inputTokens": 1200, "outputTokens": 34}]
    app = chat([*stream, *says("m1", ANSWER), finished(usage=usage)])
    async with app.run_test(size=size) as pilot:
        await write(pilot, "How warm is Rome?\nAnd Oslo?")
        await shows(pilot, "bring a coat", "✓ finished")
        await check_screen(pilot, name("answer", size))


@pytest.mark.parametrize("size", SIZES)
async def test_questions(size: tuple[int, int]) -> None:
    app = chat([started(), *calls("c1", "delete_file", '{"path": "a.txt"}'), finished(interrupts=QUESTIONS)])
    async with app.run_test(size=size) as pilot:
        await write(pilot, "delete it")
        await shows(pilot, "1 of 2", "2 of 2")
        await pilot.press("right", "tab", "right")
        await shows(pilot, "(•) answer", "count")
        await check_screen(pilot, name("questions", size))


async def test_a_run_going_on_with_a_message_that_waits() -> None:
    app = chat([started(), *says("m1", "half an answer")[:2], gate()])
    async with app.run_test(size=SIZES[0]) as pilot:
        await write(pilot, "hello")
        await shows(pilot, "half an answer")
        await write(pilot, "and then?")
        await shows(pilot, "waits: and then?")
        await check_screen(pilot, name("running", SIZES[0]))


async def test_a_failure() -> None:
    lost: Any = {"type": "RUN_ERROR", "message": "the model is overloaded, try again later", "code": "overloaded"}
    app = chat([started(), *says("m1", "half an answer")[:2], *calls("c1", "weather", "{}"), lost])
    async with app.run_test(size=SIZES[0]) as pilot:
        await write(pilot, "hello")
        await shows(pilot, "✗ failed (overloaded)")
        await check_screen(pilot, name("failed", SIZES[0]))


async def test_the_page_of_keys_and_commands() -> None:
    app = chat()
    async with app.run_test(size=SIZES[0]) as pilot:
        await pilot.press("f1")
        await shows(pilot, "Keys and commands", "/save FILE", "Close")
        await check_screen(pilot, name("help", SIZES[0]))
