"""No server of a test outlives it, however the test ends."""

from __future__ import annotations

import socket
import subprocess
import sys
import time

import pytest
from tests.conftest import ROOT
from tests.processes import listening

SERVER = """
import http.server, sys
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.BaseHTTPRequestHandler).serve_forever()
"""
DIES = """
import os
from tests.processes import listening
with listening(lambda port: [{python!r}, "-c", {server!r}, str(port)]) as port:
    print(port, flush=True)
    os._exit(3)
"""


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def test_it_answers_until_the_end_of_the_block() -> None:
    """Up inside, gone behind it."""
    with listening(lambda port: [sys.executable, "-c", SERVER, str(port)]) as port:
        assert answers(port)
    assert not answers(port)


def test_it_goes_with_a_process_that_dies() -> None:
    """A timeout of pytest ends the process without unwinding anything."""
    program = DIES.format(python=sys.executable, server=SERVER)
    died = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert died.returncode == 3
    deadline = time.monotonic() + 20
    while answers(int(died.stdout)):
        assert time.monotonic() < deadline, "the server is still there"
        time.sleep(0.02)


def test_a_program_that_does_not_start_says_why() -> None:
    """Its last words are in the error."""
    with (
        pytest.raises(RuntimeError, match="no such luck"),
        listening(lambda port: [sys.executable, "-c", "exit('no such luck')"]),
    ):
        pytest.fail("it cannot be up")
