"""Ids that must be unique."""

from __future__ import annotations

from handrail.agui._numbered import Numbered


class Asked(set[str]):
    """Ids that are taken, and how often somebody looked."""

    looks = 0

    def __contains__(self, name: object) -> bool:
        self.looks += 1
        return super().__contains__(name)


def test_the_next_free_number_is_behind_the_last() -> None:
    """S-142, P-52: from 2 on; what looks like one of ours is respected, and every id has its own numbers."""
    numbered, taken = Numbered(), set[str]()
    for wanted, free in [
        ("a", "a"),
        ("a", "a#2"),
        ("a#2", "a#2#2"),
        ("a", "a#3"),
        ("b", "b"),
        ("b", "b#2"),
        ("a", "a#4"),
    ]:
        assert numbered.free(wanted, taken) == free
        taken.add(free)


def test_an_id_wanted_a_thousand_times_is_found_as_soon_as_the_second_time() -> None:
    """P-60: the search goes on where the last one ended."""
    numbered, taken = Numbered(), Asked()
    for number in range(1, 1_001):
        taken.looks = 0
        free = numbered.free("a", taken)
        assert taken.looks <= 2
        assert free == (f"a#{number}" if number > 1 else "a")
        taken.add(free)
