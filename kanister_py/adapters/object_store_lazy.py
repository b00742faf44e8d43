"""Object stores whose library is loaded when the first of them is opened."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from kanister_py.core.objects.locations import Location
    from kanister_py.ports.object_store import ObjectStore, ObjectStores


class LazyStores:
    """Most runs open no store: none of them waits for the library."""

    def __init__(self, locations: Path | None = None) -> None:
        self._folder = "" if locations is None else str(locations.absolute())

    @cached_property
    def _stores(self) -> ObjectStores:
        from kanister_py.adapters.clock_system import SystemClock
        from kanister_py.adapters.object_store_obstore import LibraryStores

        return LibraryStores(SystemClock().now)

    def open(self, location: Location) -> ObjectStore:
        return self._stores.open(self.place_of(location))

    def with_keys(self, location: Location) -> Location:
        return self._stores.with_keys(self.place_of(location))

    def place_of(self, location: Location) -> Location:
        return location.in_folder(self._folder) if self._folder else location
