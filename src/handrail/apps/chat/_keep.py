"""Conversations in files: one JSON document, as a session dumps it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, cast

__all__ = ["read", "write"]

_FORMAT = "handrail.session"


def write(name: str, data: dict[str, Any]) -> Path:
    """Write a dump to the file `name`, readable for its owner only; whole, or not at all.

    Another kind of file is not written over. Raises `ValueError` for that, `OSError` for what the system refuses.
    """
    path = _path(name)
    if path.exists():
        read(name)
    try:
        _put(path, json.dumps(data, ensure_ascii=True))
    except OSError as error:  # it names the file that is only there for a moment
        raise OSError(f"{path} cannot be written: {error.strerror}") from error
    return path


def _path(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{name}: there is no such home folder") from error


def _put(path: Path, text: str) -> None:
    with NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False, encoding="ascii") as file:
        try:
            file.write(text)
            file.flush()
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def read(name: str) -> dict[str, Any]:
    """The dump in the file `name`. Raises `ValueError` where it is none, `OSError` where it cannot be read."""
    path = _path(name)
    try:
        data: Any = json.loads(path.read_bytes())
    except OSError as error:
        raise OSError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or cast("dict[str, Any]", data).get("format") != _FORMAT:
        raise ValueError(f"{path} is no kept conversation")
    return cast("dict[str, Any]", data)
