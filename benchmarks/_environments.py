"""Where programs run: the project's environment, and those of the peers, each made at its first use under .cache/bench.

A peer is never installed beside handrail's own tools: what it needs is its own affair.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

__all__ = ["ENVIRONMENTS", "ROOT", "Unavailable", "python_of", "versions"]

ROOT = Path(__file__).resolve().parent.parent
_HOME = ROOT / ".cache" / "bench"

ENVIRONMENTS: dict[str, tuple[str, ...]] = {
    # What pip is asked for. "project" is the environment that runs this, "node" has what `make test` installs there.
    "project": (),
    "node": (),
    "wire": ("--editable", ".[client,server]", "orjson", "httpx-sse", "jsonpatch"),
    "pydantic-ai": ("pydantic-ai-slim[ag-ui]", "uvicorn"),
    "openai-agents": ("openai-agents",),
    "agno": ("agno",),
    "agent-framework": ("agent-framework-ag-ui", "--pre"),
}
_TOLD = (
    "handrail", "anyio", "pydantic", "pydantic-core", "ag-ui-protocol", "orjson", "httpx", "httpx-sse", "jsonpatch",
    "pydantic-ai-slim", "openai-agents", "agno", "agent-framework-ag-ui", "starlette", "uvicorn",
)  # fmt: skip
_ASK = """
import importlib.metadata as m, json, platform, sys
names = {n.lower().replace("_", "-") for d in m.distributions() if (n := d.metadata["Name"])}
print(json.dumps({"python": platform.python_version()} | {n: m.version(n) for n in sys.argv[1:] if n in names}))
"""


class Unavailable(Exception):
    """An environment cannot be had here, and why."""


@cache
def python_of(environment: str) -> str:
    """The interpreter of an environment; makes it if it is not there. Raises `Unavailable` with the reason."""
    wanted = ENVIRONMENTS[environment]
    if not wanted:
        return sys.executable
    home = _HOME / environment
    python = home / "bin" / "python"
    made = home / "made"
    recipe = repr(wanted) + ((ROOT / "pyproject.toml").read_text() if "--editable" in wanted else "")
    if not made.exists() or made.read_text() != recipe:
        try:
            subprocess.run([sys.executable, "-m", "venv", str(home)], check=True, capture_output=True, text=True)
            install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted]
            subprocess.run(install, cwd=ROOT, check=True, capture_output=True, text=True, timeout=600)
        except (OSError, subprocess.SubprocessError) as error:
            said = getattr(error, "stderr", None) or str(error)
            raise Unavailable(f"{environment} could not be made: {said.strip().splitlines()[-1][:120]}") from error
        made.write_text(recipe)
    return str(python)


def versions(environment: str) -> dict[str, str]:
    """What is installed there, of what matters here."""
    if environment == "node":
        said = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
        package = ROOT / ".cache/peers/node_modules/@ag-ui/client/package.json"
        return {"node": said, "@ag-ui/client": json.loads(package.read_text())["version"]}
    line = [python_of(environment), "-c", _ASK, *_TOLD]
    return json.loads(subprocess.run(line, capture_output=True, text=True, check=True).stdout)
