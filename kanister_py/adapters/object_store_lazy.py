"""Object stores whose library is loaded when the first of them is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kanister_py.adapters.clock_system import SystemClock

if TYPE_CHECKING:
    from pathlib import Path

    from kanister_py.core.kube.locations import Location
    from kanister_py.ports.object_store import ObjectStore


class LazyStores:
    """Most runs open no store: none of them waits for the library."""

    def __init__(self, locations: Path | None = None) -> None:
        self._folder = "" if locations is None else str(locations.absolute())

    def open(self, location: Location) -> ObjectStore:
        from kanister_py.adapters.object_store_obstore import open_store

        return open_store(self.place_of(location), SystemClock.now)

    def with_keys(self, location: Location) -> Location:
        from kanister_py.adapters.object_store_obstore import with_keys

        return with_keys(self.place_of(location), SystemClock.now)

    def place_of(self, location: Location) -> Location:
        return location.in_folder(self._folder) if self._folder else location
