"""A consumer that writes into whatever it can reach."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import BaseModel

SPOILED = "spoiled"


def spoil(value: Any) -> None:
    """Change everything that can be changed, all the way down; of a frozen value, what it holds."""
    if isinstance(value, BaseModel):
        for name, held in tuple(value.__dict__.items()):
            spoil(held)
            if isinstance(held, str):
                value.__dict__[name] = SPOILED
        spoil(value.__pydantic_extra__)
    elif isinstance(value, dict):
        for key, held in tuple(value.items()):
            spoil(held)
            if not isinstance(held, dict | list):
                value[key] = SPOILED
        value[SPOILED] = SPOILED
    elif isinstance(value, list):
        for held in value:
            spoil(held)
        value.append(SPOILED)
    elif isinstance(value, tuple):
        for held in value:
            spoil(held)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            spoil(getattr(value, field.name))
