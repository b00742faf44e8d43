"""The page and the plot that simulated nights come to: docs/scale.md and docs/scale.svg."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.simulation.night import Night, Share

_QUOTA_BYTES: Final = 2 * 1024**3
"""What etcd takes unless it is allowed more."""
_EVENT_BYTES: Final = 900


class _Panel(NamedTuple):
    """One figure for each number of replicas: that of the replica for which it is highest."""

    title: str
    unit: str
    read: Callable[[Share], float]


_PANELS: Final = (
    _Panel("longest wait", "s", lambda share: share.longest_wait_seconds),
    _Panel("requests", "thousand", lambda share: share.requests / 1000),
    _Panel("events heard", "thousand", lambda share: share.events_seen / 1000),
    _Panel("kept of objects", "MB", lambda share: share.kept_kilobytes / 1024),
)


def write_page(nights: Sequence[Night], page: Path) -> None:
    """Write the page, and beside it the plot that it shows."""
    plot = page.with_suffix(".svg")
    plot.write_text(plot_of(nights), encoding="utf-8")
    page.write_text(page_of(nights, plot.name), encoding="utf-8")


def plot_of(nights: Sequence[Night]) -> str:
    """Draw a row of small bar charts."""
    width, height, left, base = 200, 190, 20, 150
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width * len(_PANELS)} {height}" '
        'font-family="sans-serif" font-size="11" role="img" '
        'aria-label="The busiest replica of 1, 3 and 10">'
    )
    lines = [head, '<rect width="100%" height="100%" fill="white"/>']
    for at, panel in enumerate(_PANELS):
        x = at * width + left
        values = [max(map(panel.read, night.shares)) for night in nights]
        highest = max(values) or 1.0
        lines.append(f'<text x="{x}" y="18" font-weight="bold">{panel.title}, {panel.unit}</text>')
        for number, (night, value) in enumerate(zip(nights, values, strict=True)):
            high = round(110 * value / highest, 1)
            bar = x + number * 52
            lines += [
                f'<rect x="{bar}" y="{base - high}" width="40" height="{high}" fill="#4c78a8"/>',
                _label(bar + 20, base - high - 4, _number(value)),
                _label(bar + 20, base + 15, str(night.plan.replicas)),
            ]
        lines.append(
            f'<text x="{x}" y="{base + 32}" fill="#666">replicas (the busiest of them)</text>'
        )
    return "\n".join([*lines, "</svg>", ""])


def _label(x: float, y: float, text: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="middle">{text}</text>'


def page_of(nights: Sequence[Night], plot: str) -> str:
    """Say in words and numbers what nights came to."""
    one, most = nights[0], nights[-1]
    plan = one.plan
    template = (Path(__file__).parent / "page_template.md").read_text(encoding="utf-8")
    asked = sum(one.requests.values()) / one.completed
    alone = one.completed / one.processor_seconds
    heard = max(share.events_seen for share in most.shares) / most.completed
    hears = _hearing_seconds(one, most)
    events = one.requests.get("create Event", 0) / one.completed
    kept, shared = (max(each.kept_kilobytes for each in night.shares) for night in (one, most))
    has_all = all(night.composed == night.plan.composites for night in nights)
    return template.format(
        namespaces=f"{plan.namespaces:,}",
        hours=f"{plan.hours:g}",
        composites=f"{plan.composites:,}",
        plot=plot,
        rows="\n".join(map(_row, nights)),
        composed="every" if has_all else "NOT EVERY",
        asked=f"{asked:.1f}",
        by_requests=f"{1000 / asked:.0f}",
        alone=f"{alone:.0f}",
        own=f"{1000 / alone:.1f}",
        heard=f"{heard:.1f}",
        hears=f"{hears * 1e6:.0f}",
        fan_out=f"{1 / (heard * hears):,.0f}",
        useful=f"{1 / (heard * hears) / alone:.0f}",
        kept=f"{kept / 1024:.0f}",
        shared=f"{shared / 1024:.0f}",
        replicas=most.plan.replicas,
        most_kept=f"{1024**2 * plan.composites // max(1, kept):,}",
        bytes_of_run=f"{one.bytes_of_run:,}",
        with_events=f"{one.bytes_of_run + events * _EVENT_BYTES:,.0f}",
        most_runs=f"{_QUOTA_BYTES // one.bytes_of_run:,}",
        most_composites=f"{_QUOTA_BYTES // max(1, one.bytes_of_composite):,}",
    )


def _row(night: Night) -> str:
    busiest = max(night.shares, key=lambda share: share.runs)

    def most(read: Callable[[Share], float]) -> float:
        return max(map(read, night.shares))

    wait, requests, heard, kept = (most(panel.read) for panel in _PANELS)
    spent = night.processor_seconds
    return (
        f"| {night.plan.replicas} | {night.completed:,} | {busiest.runs:,} | {wait:.0f} s "
        f"| {requests:,.0f} thousand | {heard:,.0f} thousand | {kept:.0f} MB | {spent:.0f} s |"
    )


def _hearing_seconds(one: Night, most: Night) -> float:
    """Say what an event costs a replica that has nothing to do with it: what others bring."""
    events = sum(share.events_seen for share in most.shares) - one.shares[0].events_seen
    return max(most.processor_seconds - one.processor_seconds, 1e-6) / max(events, 1)


def _number(value: float) -> str:
    return f"{value:,.1f}" if value < 10 else f"{value:,.0f}"
