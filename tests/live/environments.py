"""The environments of frameworks of others' making, each made once and kept under .cache/live.

Their dependencies clash with each other and with handrail's, so none is ever installed beside handrail's own tools.
Some run servers that lie beside a checkout; some run recipes of the documentation, and have handrail in them.
`make test` makes them ahead (`python -m tests.live.environments`), since that takes a minute each.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.conftest import ROOT, SHARED

HOME = ROOT / ".cache" / "live"

# Its dependencies stand beside it, so that an environment is made anew when they change.
HANDRAIL = ("--editable", ".", *tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"])
ENVIRONMENTS: dict[str, tuple[str, ...]] = {
    # What pip is asked for, in the project's folder.
    "pydantic-ai": ("pydantic-ai-slim[ag-ui]==2.68.0", "ag-ui-protocol==1.0.0", "starlette", "uvicorn"),
    "langgraph": (
        "ag-ui-langgraph==0.0.47",
        "ag-ui-protocol==1.0.0",
        "langgraph~=1.2",
        "langchain-core~=1.8",
        "fastapi",
        "uvicorn",
        *HANDRAIL,
    ),
    "openai-agents": ("openai-agents==0.24.0", *HANDRAIL),
}


class Unavailable(Exception):
    """An environment cannot be had here, and why."""


_unavailable: dict[str, Unavailable] = {}


def python_of(name: str) -> Path:
    """The interpreter of an environment, which is made if it is not there. Raises `Unavailable`; it is tried once."""
    if name in _unavailable:
        raise _unavailable[name]
    wanted = "\n".join(ENVIRONMENTS[name])
    home = HOME / name
    made, python = home / "made", home / "bin" / "python"
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists() or made.read_text() != wanted:
            _make(name, home, python)
            made.write_text(wanted)
    return python


def _make(name: str, home: Path, python: Path) -> None:
    install = [str(python), "-m", "pip", "install", "--quiet", "--retries", "1", *ENVIRONMENTS[name]]
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True, capture_output=True, text=True)
        subprocess.run(install, cwd=ROOT, check=True, capture_output=True, text=True, timeout=900)
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        why = next((line for line in said if line.strip().startswith("ERROR")), said[-1]).strip()
        _unavailable[name] = Unavailable(f"the {name} environment could not be made: {why[:200]}")
        raise _unavailable[name] from error


if __name__ == "__main__":
    with_recipes = [name for name, wanted in ENVIRONMENTS.items() if set(HANDRAIL) <= set(wanted)]
    for environment in ENVIRONMENTS if SHARED.is_dir() else with_recipes:
        try:
            python_of(environment)
        except Unavailable as unavailable:
            print(f"{unavailable}; tests against it will skip")
