"""Permutations of passes, made by the thread that asks or by another one before."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

from blocklearn.datasources.memory import pass_orders
from blocklearn.datasources.memory.order import RowOrder, shuffle_rows
from blocklearn.datasources.memory.pass_orders import PassOrders

ITEMS = 50


def wanted(pass_: int, items: int = ITEMS) -> np.ndarray[Any, Any]:
    order = np.empty(items, np.int64)
    shuffle_rows(3, pass_, order)
    return order


@pytest.mark.parametrize("key", [(0, 0), (3, 7), (2**64 - 1, 2**63)])
def test_an_order_is_drawn_from_philox_with_its_seed_and_pass_as_the_key(
    key: tuple[int, int],
) -> None:
    order, expected = np.empty(ITEMS, np.int64), np.arange(ITEMS)
    shuffle_rows(*key, order)
    philox = np.random.Philox(key=np.array(key, np.uint64))
    np.random.Generator(philox).shuffle(expected)
    np.testing.assert_array_equal(order, expected)


def test_an_order_is_freed_when_nobody_holds_it() -> None:
    order = RowOrder(ITEMS, 10, True, 3)
    order.rows_of(0, 0, np.empty(10, np.int64))
    freed = weakref.ref(order)
    gc.disable()  # a cycle would wait for the collector
    try:
        del order
        assert freed() is None
    finally:
        gc.enable()


def made(monkeypatch: pytest.MonkeyPatch, make: Any = None) -> tuple[PassOrders, list[int]]:
    """Orders that are made ahead, however few, and the passes whose order was made."""
    monkeypatch.setattr(pass_orders, "AHEAD", 1)
    seen: list[int] = []

    def noted(pass_: int, into: Any) -> None:
        seen.append(pass_)
        if make is not None:
            make(pass_, into)
        shuffle_rows(3, pass_, into)

    return PassOrders(ITEMS, noted), seen


def whole(orders: PassOrders, pass_: int) -> np.ndarray[Any, Any]:
    with orders.lock:
        return orders.of(pass_).copy()


def test_each_order_is_made_once_where_passes_follow_one_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    orders, seen = made(monkeypatch)
    for pass_ in range(6):
        np.testing.assert_array_equal(whole(orders, pass_), wanted(pass_))
        for _ in range(3):
            orders.expect(pass_ + 1)
        np.testing.assert_array_equal(whole(orders, pass_), wanted(pass_))  # stays meanwhile
    whole(orders, 6)
    assert seen == list(range(7))


def test_an_error_leaves_room_for_the_next_order() -> None:
    """Of few items one order is held."""

    def no_room(pass_: int, into: Any) -> None:
        if pass_ == 1:
            raise MemoryError("no room for pass 1")
        shuffle_rows(3, pass_, into)

    orders = PassOrders(ITEMS, no_room)
    for pass_ in (0, 2):
        np.testing.assert_array_equal(whole(orders, pass_), wanted(pass_))
        for _ in range(2):
            with pytest.raises(MemoryError, match="no room for pass 1"):
                whole(orders, 1)


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_questions(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    orders, _ = made(monkeypatch)
    rng = np.random.default_rng(seed)
    for _ in range(60):
        pass_ = int(rng.integers(0, 5))
        if rng.random() < 0.4:
            orders.expect(pass_)
        else:
            np.testing.assert_array_equal(whole(orders, pass_), wanted(pass_))


def test_few_items_start_no_thread() -> None:
    orders = PassOrders(ITEMS, lambda pass_, into: shuffle_rows(3, pass_, into))
    whole(orders, 1)
    orders.expect(2)
    assert orders._coming is None
    np.testing.assert_array_equal(whole(orders, 2), wanted(2))


def test_an_order_that_failed_is_made_again_and_tells_its_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_room(pass_: int, into: Any) -> None:
        if pass_ == 1:
            raise MemoryError("no room for pass 1")

    orders, seen = made(monkeypatch, no_room)
    whole(orders, 0)
    orders.expect(1)
    with pytest.raises(MemoryError, match="no room for pass 1"):
        whole(orders, 1)
    assert seen == [0, 1, 1]
    np.testing.assert_array_equal(whole(orders, 2), wanted(2))


def test_an_interrupt_in_the_start_of_the_thread_costs_no_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thread that runs writes to an array that no reader sees."""
    go_on = threading.Event()

    def late(pass_: int, into: Any) -> None:
        if threading.current_thread().name == "blocklearn-order":
            assert go_on.wait(60)

    started: list[threading.Thread] = []

    def interrupted(thread: threading.Thread) -> None:
        threading.Thread.start(thread)
        started.append(thread)
        raise KeyboardInterrupt

    orders, _ = made(monkeypatch, late)
    whole(orders, 0)
    with monkeypatch.context() as patched:
        patched.setattr(pass_orders._Coming, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            orders.expect(2)
    for pass_ in (1, 3):
        with orders.lock:
            order = orders.of(pass_)
            go_on.set()
            started[0].join()
            np.testing.assert_array_equal(order, wanted(pass_))


def test_a_system_that_refuses_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    orders, seen = made(monkeypatch)
    monkeypatch.setattr(pass_orders._Coming, "start", refuse)
    for pass_ in range(4):
        np.testing.assert_array_equal(whole(orders, pass_), wanted(pass_))
        orders.expect(pass_ + 1)
    assert seen == list(range(4)) and len(orders._free) + len(orders._held) == 2


def test_readers_in_two_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread sees the order that it asks for, whatever the others do."""
    orders, _ = made(monkeypatch)
    wrong: list[int] = []

    def read(first: int) -> None:
        for n in range(200):
            pass_ = (first + n) // 40
            orders.expect(pass_ + 1)
            if not np.array_equal(whole(orders, pass_), wanted(pass_)):
                wrong.append(pass_)

    threads = [threading.Thread(target=read, args=(13 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_rows_are_those_of_the_permutation_whoever_made_it() -> None:
    rows, block = pass_orders.AHEAD + 17, 5000
    order, ids = RowOrder(rows, block, True, 3), np.empty(block, np.int64)
    for pass_ in range(4):
        found = [ids[: order.rows_of(pass_, i, ids)].copy() for i in range(order.blocks)]
        np.testing.assert_array_equal(np.concatenate(found), wanted(pass_, rows))
