"""Questions about calls, as both ends ask them."""

from handrail.agui._approvals import Ask, Given, as_answers, entry_from_person, entry_of, question, refusal

__all__ = ["Ask", "Given", "as_answers", "entry_from_person", "entry_of", "question", "refusal"]
