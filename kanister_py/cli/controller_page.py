"""The pages of a controller: what it follows for them, and where those of others are."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kanister_py.controller.controller import Controller
    from kanister_py.controller.overview import ClusterOverview
    from kanister_py.http_api.live.routes import Pages, Review
    from kanister_py.ports.clock import Clock
    from kanister_py.ports.cluster import Cluster
    from kanister_py.ports.overview import Overview


def add_page_arguments(tells: Any) -> None:
    tells.add_argument(
        "--resources-page",
        default="",
        metavar="URL",
        help="where the controller that composes has its endpoint, if it is another one: its "
        "pages of composite resources are shown on this page, too",
    )


def followed(
    controller: Controller, cluster: Cluster, clock: Clock, stack: ExitStack
) -> ClusterOverview:
    """Follow all runs for the page, whether this replica leads or stands by.

    Who only composes has no right to see them, and does not look.
    """
    from kanister_py.controller.overview import ClusterOverview

    settings = controller.settings
    overview = ClusterOverview(
        *(cluster, clock, controller.lines),
        home=settings.home,
        namespaces=settings.namespaces,
        passes=controller.passes,
        has_runs=settings.runs_actionsets,
    )
    stack.callback(overview.close)
    overview.start()
    return overview


def pages_of(overview: Overview, review: Review | None, elsewhere: str) -> Pages:
    """Make the pages; those of composite resources are another controller's, if one is named."""
    from kanister_py.http_api.live.routes import Pages
    from kanister_py.wiring import pages_elsewhere, system_clock

    others = pages_elsewhere(elsewhere) if elsewhere else None
    return Pages(overview, system_clock().now, review, others)
