# SPDX-License-Identifier: MIT
"""Pictures of answers, with matplotlib. Each function draws into `ax` (default: a new figure) and gives it.

Time is the process's own: instructions retired, along the x axis.
"""

from __future__ import annotations

import bisect
import operator
import zlib
from typing import TYPE_CHECKING, Any, Optional, Union

from .values import Name

if TYPE_CHECKING:
    from .trace import Trace

_LEGEND = 10


def _axes(ax: Any, height: float = 3.2) -> Any:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as e:
        raise ImportError("plots need matplotlib (Debian: python3-matplotlib)") from e
    return plt.subplots(figsize=(9, height), layout="constrained")[1]


def _colours(keys: list[str]) -> dict[str, Any]:
    """A colour for each key, the most frequent ones first; the rest share one."""
    import matplotlib

    order = sorted(set(keys), key=lambda k: (-keys.count(k), k))
    palette = matplotlib.colormaps["tab10"]
    return {key: palette(i) if i < _LEGEND - 1 else (0.6, 0.6, 0.6, 1.0) for i, key in enumerate(order)}


def _empty(ax: Any, text: str) -> Any:
    ax.text(0.5, 0.5, text, ha="center", va="center", transform=ax.transAxes, color="0.4", wrap=True)
    ax.set_yticks([])
    return ax


def _span(trace: "Trace", ax: Any) -> None:
    ax.set_xlim(0, max(1, int(trace.end)))
    ax.set_xlabel("time (instructions)")
    if trace.crash is not None:
        ax.axvline(int(trace.crash), color="crimson", linewidth=1, linestyle=":")


def writes(trace: "Trace", location: Union[int, str], size: Optional[int] = None, where: str = "",
           limit: int = 200_000, ax: Any = None) -> Any:
    """Every write to an address or a variable: its time, the value it left, and who wrote.

    `location`: an address, or a name; `where`: a further condition. Values are drawn as numbers; those of
    more than 8 bytes only as marks at the bottom.
    """
    text = "writes to ?" + (" len ?" if size is not None else "") + (f" where {where}" if where else "")
    place: Any = Name(location) if isinstance(location, str) else operator.index(location)
    answer = trace.query(text, place, *([size] if size is not None else []), limit=limit)
    rows = answer.rows()
    ax = _axes(ax)
    shown = location if isinstance(location, str) else hex(location)
    ax.set_title(f"writes to {shown}", loc="left", fontsize=10)
    _span(trace, ax)
    if not rows:
        return _empty(ax, answer.note or "no writes")
    times = [int(row.time) for row in rows]
    values = [float(row.value) if isinstance(row.value, int) else float("nan") for row in rows]
    ax.step([*times, int(trace.end)], [*values, values[-1]], where="post", color="0.75", linewidth=1, zorder=1)
    writers = [row.function or row.actor or "?" for row in rows]
    for writer, colour in _colours(writers).items():
        chosen = [i for i, w in enumerate(writers) if w == writer]
        ax.scatter([times[i] for i in chosen], [values[i] for i in chosen], s=14, color=[colour],
                   label=f"{writer} ({len(chosen)})", zorder=2)
    ax.legend(fontsize=8, loc="best")
    ax.set_ylabel("value")
    if max((v for v in values if v == v), default=0) > 1 << 24:
        ax.set_yscale("symlog")
    if answer.truncated:
        ax.set_title(f"the first {len(rows)}", loc="right", fontsize=8)
    return ax


def refcounts(trace: "Trace", address: int, ax: Any = None, limit: int = 200_000) -> Any:
    """An object's reference count over time."""
    answer = trace.query("refcounts of ?", operator.index(address), limit=limit)
    rows = answer.rows()
    ax = _axes(ax)
    ax.set_title(f"reference count of {hex(address)}", loc="left", fontsize=10)
    _span(trace, ax)
    if not rows:
        return _empty(ax, answer.note or "no changes")
    times, counts = [int(row.time) for row in rows], [int(row.after) for row in rows]
    ax.step(times, counts, where="post", linewidth=1)
    ax.scatter(times, counts, s=8)
    ax.set_ylabel("references")
    ax.set_ylim(bottom=0)
    return ax


def failures(trace: "Trace", failure_query: str, event_query: str, window: int = 100_000,
             by: Optional[str] = None, title: str = "events around failures", ax: Any = None,
             limit: int = 200_000) -> Any:
    """Events around failures: one mark per event that lies within `window` instructions of a failure, at its
    distance from that failure (before: negative) and its number among all events of the recording.

    What belongs to the failures lines up; what only happens to be there does not. `by`: the column that
    gives the colour (default: function or kind).
    """
    fails = [int(row.time) for row in trace.query(failure_query, limit=limit)]
    answer = trace.query(event_query, limit=limit)
    rows = answer.rows()
    ax = _axes(ax, 4)
    ax.set_title(title, loc="left", fontsize=10)
    ax.set_xlabel("instructions before and after the failure")
    ax.set_ylabel("number of the event")
    if not fails or not rows:
        return _empty(ax, "no failures" if not fails else answer.note or "no events")
    if by is None:
        by = next((name for name in ("kind", "function") if name in rows[0].keys()), rows[0].keys()[0])
    times = [int(row.time) for row in rows]
    marks: list[tuple[int, int, str]] = []
    for fail in fails:
        begin, end = bisect.bisect_left(times, fail - window), bisect.bisect_right(times, fail + window)
        marks.extend((times[i] - fail, i, str(rows[i][by])) for i in range(begin, end))
    if not marks:
        return _empty(ax, f"no event within {window} instructions of a failure")
    keys = [key for _, _, key in marks]
    for key, colour in _colours(keys).items():
        chosen = [(x, y) for x, y, k in marks if k == key]
        ax.scatter(*zip(*chosen), s=14, color=[colour], label=f"{key} ({len(chosen)})")
    ax.axvline(0, color="crimson", linewidth=1)
    ax.legend(fontsize=8, loc="best")
    return ax


def _tree(rows: list[Any], end: int) -> dict[tuple[str, ...], int]:
    """Instructions spent in each stack of functions, callees included, from rows of `calls to`. A call
    that never returned lasts to the end."""
    spent: dict[tuple[str, ...], int] = {}
    open_calls: dict[int, list[tuple[int, tuple[str, ...]]]] = {}
    for row in sorted(rows, key=lambda r: r.time):
        if "kind" in row.keys() and row["kind"] == "inlined":
            continue  # it has no end of its own
        start = int(row.time)
        stop = int(row.return_time) if row.return_time is not None else end
        stack = open_calls.setdefault(row.thread, [])
        while stack and stack[-1][0] <= start:
            stack.pop()
        path = (*(stack[-1][1] if stack else ()), str(row.function or hex(row.pc)))
        spent[path] = spent.get(path, 0) + max(1, stop - start)
        stack.append((stop, path))
    return spent


def _flame_colour(function: str) -> tuple[float, float, float]:
    """Warm, and the same for a function in every picture."""
    import colorsys

    mix = zlib.crc32(function.encode())
    return colorsys.hsv_to_rgb((mix % 97) / 97 * 0.17, 0.45 + (mix >> 8) % 31 / 100, 0.95)


def flame(trace: "Trace", calls: str = 'calls to "*"', limit: int = 200_000, ax: Any = None) -> Any:
    """A flame graph: who called whom (upwards), and how many instructions were spent below (width). Of the
    functions that the query names; calls between them that it does not name are left out."""
    # Arguments and depths are not needed, and cost more than all else.
    asked = ["time", "thread", "pc", "function", "return_time", "kind"]
    has = [column.name for column in trace.query(calls + "\n| first 0").columns]
    answer = trace.query(calls + "\n| select " + ", ".join(c for c in asked if c in has), limit=limit)
    rows = answer.rows()
    spent = _tree(rows, int(trace.end))
    depth = max((len(path) for path in spent), default=1)
    ax = _axes(ax, min(8.0, 1.2 + 0.28 * depth))
    ax.set_title(calls, loc="left", fontsize=10)
    if not spent:
        return _empty(ax, answer.note or "no calls")
    total = sum(n for path, n in spent.items() if len(path) == 1)
    left: dict[tuple[str, ...], float] = {(): 0.0}
    for path in sorted(spent, key=lambda p: (len(p), p[:-1], -spent[p])):
        x = left[path[:-1]]
        width = spent[path] / total
        left[path[:-1]] = x + width
        left[path] = x
        if width < 0.0005:
            continue
        ax.barh(len(path) - 1, width, left=x, height=0.92, color=_flame_colour(path[-1]), edgecolor="white",
                linewidth=0.5, alpha=0.85, align="edge")
        letters = int(width * 130)
        if letters >= 3:
            name = path[-1] if len(path[-1]) <= letters else path[-1][: letters - 1] + "…"
            ax.text(x + width / 2, len(path) - 0.54, name, ha="center", va="center", fontsize=7, clip_on=True)
    ax.set_xlim(0, 1)
    ax.set_xticks([0, 0.5, 1], ["0", f"{total // 2:,}", f"{total:,}"])
    ax.set_xlabel("instructions")
    ax.set_yticks([])
    if answer.truncated:
        ax.set_title(f"of the first {len(rows)} calls", loc="right", fontsize=8)
    return ax


def threads(trace: "Trace", events: str = "events", limit: int = 200_000, ax: Any = None) -> Any:
    """A lane for each thread: when it lived (grey), and where `events` happened in it (a query; its `kind` or
    function gives the colour)."""
    lanes = trace.query("threads").rows()
    rows = [row for row in trace.query(events, limit=limit) if row.time is not None]
    ax = _axes(ax, 1.2 + 0.35 * max(1, len(lanes)))
    ax.set_title(f"threads of {trace.info.name}: {events}", loc="left", fontsize=10)
    _span(trace, ax)
    end = int(trace.end)
    place = {int(lane.thread): i for i, lane in enumerate(lanes)}
    for lane in lanes:
        stop = int(lane.end) if lane.end is not None else end
        ax.barh(place[lane.thread], stop - int(lane.start), left=int(lane.start), height=0.7, color="0.9")
    name = next((n for n in ("kind", "function") if rows and n in rows[0].keys()), None)
    keys = [str(row[name]) if name else events for row in rows]
    for key, colour in _colours(keys).items():
        chosen = [row for row, k in zip(rows, keys) if k == key and row.thread in place]
        if chosen:
            ax.scatter([int(row.time) for row in chosen], [place[row.thread] for row in chosen], marker="|", s=120,
                       color=[colour], label=f"{key} ({len(chosen)})")
    ax.set_yticks(range(len(lanes)), [f"thread {int(lane.thread)}" for lane in lanes])
    ax.set_ylim(len(lanes) - 0.4, -0.6)
    if rows:
        ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1))
    return ax
