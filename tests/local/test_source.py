"""The in-memory source: the present at once, then the newest after every change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from pumas_local.source import LocalSource
from pumas_server.router.source import ModelRecord, ModelSource
from support.models import served_model

Listing = tuple[ModelRecord, ...]


def listing(*names: str) -> Listing:
    return tuple(ModelRecord(served_model(name), "hash", ()) for name in names)


def names(records: Listing) -> list[str]:
    return [record.model.metadata.name for record in records]


async def following(watch: AsyncIterator[Listing]) -> list[str]:
    return names(await asyncio.wait_for(anext(watch), 5))


async def test_the_present_listing_comes_at_once_even_if_it_is_empty() -> None:
    source: ModelSource = LocalSource()
    assert await following(source.watch()) == []


async def test_changes_while_the_consumer_is_busy_are_coalesced() -> None:
    source = LocalSource()
    watch = source.watch()
    await following(watch)
    source.publish(listing("a"))
    source.publish(listing("a", "b"))
    assert await following(watch) == ["a", "b"]
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    assert not waiting.done(), "each change is told once"
    source.publish(listing("c"))
    assert names(await asyncio.wait_for(waiting, 5)) == ["c"]


async def test_every_watcher_sees_every_last_change() -> None:
    source = LocalSource()
    watches = [source.watch() for _ in range(3)]
    for watch in watches:
        await following(watch)
    source.publish(listing("a"))
    assert [await following(watch) for watch in watches] == [["a"]] * 3
    assert await following(source.watch()) == ["a"]


async def test_a_listing_like_the_last_wakes_nobody() -> None:
    source = LocalSource()
    source.publish(listing("a"))
    watch = source.watch()
    await following(watch)
    source.publish(listing("a"))
    waiting = asyncio.ensure_future(anext(watch))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()
