"""Who may play next."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evopolicygym.suites.slot_pool import SlotClient, SlotPool


def entered(turnstile, *names):
    guests = [SlotClient(name) for name in names]
    for guest in guests:
        turnstile.enter(guest)
    return guests


def names(grants):
    return [(guest.name, slot) for guest, slot in grants]


def test_slots_are_shared_evenly():
    turnstile = SlotPool(range(4))
    one, two = entered(turnstile, "one", "two")
    turnstile.want(one, 4, False)
    turnstile.want(two, 4, False)
    granted = names(turnstile.grants())
    assert sorted(name for name, _ in granted) == ["one", "one", "two", "two"]
    assert sorted(slot for _, slot in granted) == [0, 1, 2, 3]


def test_train_submissions_go_before_hidden_scoring():
    turnstile = SlotPool([0])
    scoring, training = entered(turnstile, "scoring", "training")
    turnstile.want(scoring, 1, False)
    assert names(turnstile.grants()) == [("scoring", 0)]
    turnstile.want(scoring, 2, False)  # it waits longest
    turnstile.want(training, 1, True)
    turnstile.give_back(scoring, 0)
    assert names(turnstile.grants()) == [("training", 0)]


def test_among_equals_who_waits_longest_goes_first():
    turnstile = SlotPool([0])
    one, two, three = entered(turnstile, "one", "two", "three")
    for guest in (one, two, three):
        turnstile.want(guest, 1, False)
    order = []
    for _ in range(6):
        [(guest, slot)] = turnstile.grants()
        order.append(guest.name)
        turnstile.give_back(guest, slot)
    assert order == ["one", "two", "three"] * 2


def test_a_run_gets_the_slot_that_it_knows():
    turnstile = SlotPool(range(3))
    one, two = entered(turnstile, "one", "two")
    turnstile.want(one, 1, False)
    assert names(turnstile.grants()) == [("one", 0)]
    turnstile.want(two, 1, False)
    assert names(turnstile.grants()) == [("two", 1)]
    turnstile.give_back(one, 0)
    turnstile.give_back(two, 1)
    assert sorted(names(turnstile.grants())) == [("one", 0), ("two", 1)]


def test_who_leaves_gives_all_back():
    turnstile = SlotPool(range(2))
    one, two = entered(turnstile, "one", "two")
    turnstile.want(one, 2, True)
    turnstile.grants()
    turnstile.want(two, 2, False)
    assert not turnstile.grants() and turnstile.is_awaited
    turnstile.leave(one)
    assert len(turnstile.grants()) == 2


def test_a_lost_slot_is_granted_to_nobody():
    turnstile = SlotPool(range(2))
    (one,) = entered(turnstile, "one")
    turnstile.want(one, 2, True)
    turnstile.grants()
    turnstile.lose(1)
    turnstile.give_back(one, 1)
    turnstile.give_back(one, 0)
    assert names(turnstile.grants()) == [("one", 0)]
    turnstile.add(1)
    assert names(turnstile.grants()) == [("one", 1)]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.booleans()), max_size=60))
def test_no_slot_is_ever_held_twice_and_none_idles_while_somebody_waits(moves):
    turnstile = SlotPool(range(3))
    guests = entered(turnstile, "a", "b", "c", "d")
    for number, count, urgent in moves:
        guest = guests[number]
        if count == 0 and guest.holds:
            turnstile.give_back(guest, min(guest.holds))
        else:
            turnstile.want(guest, count, urgent)
        turnstile.grants()
        held = [slot for one in guests for slot in one.holds]
        assert len(held) == len(set(held)) <= 3
        assert len(held) == 3 or not turnstile.is_awaited
