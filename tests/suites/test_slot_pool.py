"""Which client gets the next slot."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evopolicygym.suites.slot_pool import SlotClient, SlotPool


def add_clients(pool, *names):
    clients = [SlotClient(name) for name in names]
    for client in clients:
        pool.add_client(client)
    return clients


def names(grants):
    return [(client.name, slot) for client, slot in grants]


def test_slots_are_shared_evenly():
    pool = SlotPool(range(4))
    first, second = add_clients(pool, "one", "two")
    pool.want(first, 4, False)
    pool.want(second, 4, False)
    granted = names(pool.grants())
    assert sorted(name for name, _ in granted) == ["one", "one", "two", "two"]
    assert sorted(slot for _, slot in granted) == [0, 1, 2, 3]


def test_train_submissions_go_before_hidden_scoring():
    pool = SlotPool([0])
    scoring, training = add_clients(pool, "scoring", "training")
    pool.want(scoring, 1, False)
    assert names(pool.grants()) == [("scoring", 0)]
    pool.want(scoring, 2, False)  # it waits longest
    pool.want(training, 1, True)
    pool.give_back(scoring, 0)
    assert names(pool.grants()) == [("training", 0)]


def test_ties_go_to_the_client_that_waits_longest():
    pool = SlotPool([0])
    first, second, third = add_clients(pool, "one", "two", "three")
    for client in (first, second, third):
        pool.want(client, 1, False)
    order = []
    for _ in range(6):
        [(client, slot)] = pool.grants()
        order.append(client.name)
        pool.give_back(client, slot)
    assert order == ["one", "two", "three"] * 2


def test_a_run_gets_the_slot_that_it_had():
    pool = SlotPool(range(3))
    first, second = add_clients(pool, "one", "two")
    pool.want(first, 1, False)
    assert names(pool.grants()) == [("one", 0)]
    pool.want(second, 1, False)
    assert names(pool.grants()) == [("two", 1)]
    pool.give_back(first, 0)
    pool.give_back(second, 1)
    assert sorted(names(pool.grants())) == [("one", 0), ("two", 1)]


def test_runs_stay_in_their_slots_while_others_wait():
    """Each would start a simulator in every slot otherwise."""
    pool = SlotPool(range(2))
    clients = add_clients(pool, "one", "two", "three")
    for client in clients:
        pool.want(client, 2, False)
    held = {slot: client for client, slot in pool.grants()}
    for _ in range(10):
        for slot in (0, 1):
            pool.give_back(held[slot], slot)
            held |= {granted: client for client, granted in pool.grants()}
    assert [len(client.used_before) for client in clients] == [1, 1, 1]


def test_a_run_takes_slots_that_no_other_run_wants():
    pool = SlotPool(range(2))
    first, second = add_clients(pool, "one", "two")
    pool.want(first, 2, False)
    pool.want(second, 1, False)
    assert names(pool.grants()) == [("one", 0), ("two", 1)]
    pool.want(second, 0, False)
    pool.give_back(second, 1)
    assert names(pool.grants()) == [("one", 1)]


def test_a_new_run_does_not_wait_for_those_that_have_used_the_slot():
    pool = SlotPool([0])
    (first,) = add_clients(pool, "one")
    pool.want(first, 2, False)
    assert names(pool.grants()) == [("one", 0)]
    (second,) = add_clients(pool, "two")
    pool.want(second, 1, False)
    pool.give_back(first, 0)
    assert names(pool.grants()) == [("two", 0)]


def test_a_client_that_leaves_releases_its_slots():
    pool = SlotPool(range(2))
    first, second = add_clients(pool, "one", "two")
    pool.want(first, 2, True)
    pool.grants()
    pool.want(second, 2, False)
    assert not pool.grants() and pool.has_waiting_clients
    pool.remove_client(first)
    assert len(pool.grants()) == 2


def test_a_lost_slot_is_not_granted_again():
    pool = SlotPool(range(2))
    (first,) = add_clients(pool, "one")
    pool.want(first, 2, True)
    pool.grants()
    pool.lose_slot(1)
    pool.give_back(first, 1)
    pool.give_back(first, 0)
    assert names(pool.grants()) == [("one", 0)]
    pool.add_slot(1)
    assert names(pool.grants()) == [("one", 1)]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.booleans()), max_size=60))
def test_no_slot_is_held_twice_or_idle_while_a_client_waits(moves):
    pool = SlotPool(range(3))
    clients = add_clients(pool, "a", "b", "c", "d")
    for number, count, urgent in moves:
        client = clients[number]
        if count == 0 and client.holds:
            pool.give_back(client, min(client.holds))
        else:
            pool.want(client, count, urgent)
        pool.grants()
        held = [slot for client in clients for slot in client.holds]
        assert len(held) == len(set(held)) <= 3
        assert len(held) == 3 or not pool.has_waiting_clients
