# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""What doctor was asked, and what it finds."""
from __future__ import annotations

from dataclasses import dataclass, field

# From what is right to what keeps things from working.
OK, NOTE, WARNING, ERROR = "ok", "note", "warning", "error"


@dataclass(frozen=True)
class Question:
    """What to look at besides this machine as a whole."""

    device: str = ""
    peer: str = ""
    ports: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Finding:
    """What is so, and what to do about it."""

    check: str
    level: str
    text: str
    advice: str = ""

    def as_json(self) -> dict[str, str]:
        return {"check": self.check, "level": self.level, "text": self.text, "advice": self.advice}
