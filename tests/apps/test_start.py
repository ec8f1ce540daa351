"""The start of the program, where there is nothing yet to cancel."""

from __future__ import annotations

import subprocess
import sys

import pytest

INTERRUPTED = """
import sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
from handrail.__main__ import main
sys.argv = ["handrail", "demo"]
main()
"""


@pytest.mark.parametrize("name", ["handrail.apps.cli", "typer", "handrail.apps._demo"])
def test_an_interrupt_while_everything_is_imported_has_the_code_of_a_cancel(name: str) -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED.format(name=name)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "handrail: cancelled by Ctrl-C, before the run had started\n"
