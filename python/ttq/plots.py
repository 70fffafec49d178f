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

# Okabe and Ito's colours, which colour-blind people tell apart; shapes help in print. What comes after them
# shares one.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
_SHAPES = ("o", "s", "^", "D", "v", "P", "X")
_REST = ("0.6", ".")
_CRASH = "#D55E00"
# Values above this are addresses, doubles, hashes: their size says nothing, and their order little.
_ORDINAL = 1 << 24
_TICKS = 12


def _axes(ax: Any, height: float = 3.2) -> Any:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as e:
        raise ImportError("plots need matplotlib (Debian: python3-matplotlib)") from e
    return plt.subplots(figsize=(9, height), layout="constrained")[1]


def _groups(keys: list[str]) -> list[tuple[str, str, str, list[int]]]:
    """(label, colour, shape, indices) for each key, the most frequent ones first; those that have no colour of
    their own are one group."""
    where: dict[str, list[int]] = {}
    for i, key in enumerate(keys):
        where.setdefault(key, []).append(i)
    order = sorted(where, key=lambda k: (-len(where[k]), k))
    own = len(order) if len(order) <= len(_COLOURS) else len(_COLOURS) - 1
    groups = [(f"{_short(key)} ({len(where[key])})", _COLOURS[i], _SHAPES[i], where[key])
              for i, key in enumerate(order[:own])]
    if order[own:]:
        rest = sorted(i for key in order[own:] for i in where[key])
        groups.append((f"{len(order) - own} others ({len(rest)})", *_REST, rest))
    return groups


def _short(text: str, most: int = 36) -> str:
    text = text if len(text) <= most else text[: most - 1] + "…"
    return " " + text if text.startswith("_") else text  # which matplotlib would leave out of a legend


def _empty(ax: Any, text: str) -> Any:
    ax.text(0.5, 0.5, text, ha="center", va="center", transform=ax.transAxes, color="0.4", wrap=True)
    ax.set_yticks([])
    return ax


def _legend(ax: Any) -> None:
    """Beside the data, never on it."""
    if ax.get_legend_handles_labels()[1]:
        ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0)


def _time_axis(ax: Any, label: str = "time (instructions)") -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{int(x):,}"))
    ax.set_xlabel(label)


def _span(trace: "Trace", ax: Any, times: list[int], whole: bool = False) -> None:
    """The x axis: from the first to the last of `times`, or the whole life; the crash when it is there."""
    _time_axis(ax)
    crash = None if trace.crash is None else int(trace.crash)
    begin, end = (0, max(1, int(trace.end))) if whole or not times else (times[0], times[-1])
    room = max(1.0, 0.04 * (end - begin))
    # A crash that is near belongs into the picture; a distant one would press all else together.
    if crash is not None and end < crash <= end + (end - begin):
        end = crash
        room = max(1.0, 0.04 * (end - begin))
    ax.set_xlim(begin - (0 if whole else room), end + room)
    if crash is not None and begin <= crash <= end + room:
        ax.axvline(crash, color=_CRASH, linewidth=1.2, linestyle=":", label="crash")


def _value_text(value: Any) -> str:
    if value is None:
        return "not known"
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return hex(value) if value >= _ORDINAL else f"{int(value)}"


def _value_axis(ax: Any, values: list[Any]) -> list[float]:
    """Where each value stands. Small numbers by their size; large ones in their order, named in hexadecimal; what
    is no number below all others."""
    numbers = sorted({int(v) for v in values if isinstance(v, int)})
    others = sorted({_value_text(v) for v in values if not isinstance(v, int)})
    ordinal = bool(numbers) and numbers[-1] >= _ORDINAL or bool(others)
    if not ordinal:
        from matplotlib.ticker import MaxNLocator

        ax.yaxis.set_major_locator(MaxNLocator(6, integer=True))
        ax.set_ylabel("value")
        return [float(v) for v in values]
    places = {text: float(i) for i, text in enumerate(others)}
    by_number = {number: float(len(others) + i) for i, number in enumerate(numbers)}
    named = [(place, text) for text, place in places.items()] + [(by_number[n], _value_text(n)) for n in numbers]
    if len(named) > _TICKS:  # evenly, with the first and the last
        step = (len(named) - 1) / (_TICKS - 1)
        named = [named[round(i * step)] for i in range(_TICKS)]
    ax.set_yticks([place for place, _ in named], [text for _, text in named], fontsize=8)
    ax.set_ylim(-0.6, len(others) + len(numbers) - 0.4)
    ax.set_ylabel("value, in order")
    return [by_number[int(v)] if isinstance(v, int) else places[_value_text(v)] for v in values]


def writes(trace: "Trace", location: Union[int, str], size: Optional[int] = None, where: str = "",
           limit: int = 200_000, ax: Any = None) -> Any:
    """Every write to an address or a variable: its time, the value it left, and who wrote. The last one is ringed
    and named above.

    `location`: an address, or a name; `where`: a further condition. Where values are large (addresses, doubles)
    they stand in their order, in hexadecimal, not by their size; those of more than 8 bytes stand below.
    """
    text = "writes to ?" + (" len ?" if size is not None else "") + (f" where {where}" if where else "")
    place: Any = Name(location) if isinstance(location, str) else operator.index(location)
    answer = trace.query(text, place, *([size] if size is not None else []), limit=limit)
    rows = answer.rows()
    ax = _axes(ax)
    shown = location if isinstance(location, str) else hex(location)
    if not rows:
        ax.set_title(f"writes to {shown}", loc="left", fontsize=10)
        _span(trace, ax, [])
        return _empty(ax, answer.note or "no writes")
    times = [int(row.time) for row in rows]
    _span(trace, ax, times)
    values = _value_axis(ax, [row.value for row in rows])
    ax.step([*times, max(times[-1], int(ax.get_xlim()[1]))], [*values, values[-1]], where="post", color="0.75",
            linewidth=1, zorder=1)
    writers = [row.function or row.actor or "?" for row in rows]
    for label, colour, shape, chosen in _groups(writers):
        ax.scatter([times[i] for i in chosen], [values[i] for i in chosen], s=16, color=colour, marker=shape,
                   label=label, zorder=2)
    what = f"the first {len(rows):,}" if answer.truncated else "last"
    if not answer.truncated:
        ax.scatter(times[-1:], values[-1:], s=110, facecolors="none", edgecolors="black", linewidths=1.3,
                   label="the last write", zorder=3)
        what = f"last: {_value_text(rows[-1].value)} by {_short(writers[-1], 30)} at {times[-1]:,}"
    # One line of its own each: a title on the left and one on the right would meet.
    ax.set_title(f"writes to {shown}\n{what}", loc="left", fontsize=9)
    _legend(ax)
    return ax


def refcounts(trace: "Trace", address: int, ax: Any = None, limit: int = 200_000) -> Any:
    """An object's reference count over time. Where the count is not known there is a gap."""
    answer = trace.query("refcounts of ?", operator.index(address), limit=limit)
    rows = [row for row in answer.rows() if row.time is not None]
    ax = _axes(ax)
    # Of an immortal object, or of memory that the allocator took back, the word is no count.
    counted = [None if row.after is None or row.after >= _ORDINAL else int(row.after) for row in rows]
    known = [row for row, count in zip(rows, counted) if count is not None]
    if not known:
        ax.set_title(f"reference count of {hex(address)}", loc="left", fontsize=10)
        _span(trace, ax, [])
        return _empty(ax, answer.note or "no changes")
    times = [int(row.time) for row in rows]
    counts = [float("nan") if count is None else float(count) for count in counted]
    _span(trace, ax, times)
    ax.step(times, counts, where="post", linewidth=1, color=_COLOURS[0])
    ax.scatter(times, counts, s=10, color=_COLOURS[0], label=f"changes ({len(known)})")
    last = known[-1]
    ax.scatter([int(last.time)], [int(last.after)], s=110, facecolors="none", edgecolors="black", linewidths=1.3,
               label="the last change", zorder=3)
    gaps = [time for time, count in zip(times, counted) if count is None]
    if gaps:
        ax.scatter(gaps, [0] * len(gaps), marker="x", s=18, color="0.4", label=f"no count ({len(gaps)})")
    by = last.function if "function" in last.keys() and last.function else "?"
    ax.set_title(f"reference count of {hex(address)}\nlast: {int(last.after)} by {_short(by, 30)} at "
                 f"{int(last.time):,}", loc="left", fontsize=9)
    from matplotlib.ticker import MaxNLocator

    ax.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.set_ylabel("references")
    ax.set_ylim(bottom=-0.3)
    _legend(ax)
    return ax


def failures(trace: "Trace", failure_query: str, event_query: str, window: int = 100_000,
             by: Optional[str] = None, title: str = "events around failures", ax: Any = None,
             limit: int = 200_000) -> Any:
    """Events around failures: one mark per event that lies within `window` instructions of a failure, at its
    distance from that failure (before: negative) and its number among all events of the recording.

    What belongs to the failures lines up; what only happens to be there does not. `by`: the column that
    gives the colour (default: function or kind).
    """
    fails = [int(row.time) for row in trace.query(failure_query, limit=limit) if row.time is not None]
    answer = trace.query(event_query, limit=limit)
    rows = [row for row in answer.rows() if row.time is not None]
    ax = _axes(ax, 4)
    ax.set_title(title, loc="left", fontsize=10)
    _time_axis(ax, "instructions before and after the failure")
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
    for label, colour, shape, chosen in _groups([key for _, _, key in marks]):
        ax.scatter([marks[i][0] for i in chosen], [marks[i][1] for i in chosen], s=16, color=colour, marker=shape,
                   label=label)
    ax.axvline(0, color=_CRASH, linewidth=1.2, linestyle=":", label=f"failure ({len(fails)})")
    from matplotlib.ticker import MaxNLocator

    ax.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    _legend(ax)
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
        # A function that left by a jump lasts as long as what it jumped to.
        for i, (ends, above) in enumerate(stack):
            if ends < stop:
                spent[above] += stop - ends
                stack[i] = (stop, above)
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
    _span(trace, ax, [], whole=True)
    end = int(trace.end)
    place = {int(lane.thread): i for i, lane in enumerate(lanes)}
    for lane in lanes:
        stop = int(lane.end) if lane.end is not None else end
        ax.barh(place[lane.thread], stop - int(lane.start), left=int(lane.start), height=0.7, color="0.9")
    name = next((n for n in ("kind", "function") if rows and n in rows[0].keys()), None)
    keys = [str(row[name]) if name else events for row in rows]
    for label, colour, _, indices in _groups(keys):
        chosen = [rows[i] for i in indices if rows[i].thread in place]
        if chosen:
            ax.scatter([int(row.time) for row in chosen], [place[row.thread] for row in chosen], marker="|", s=120,
                       color=colour, label=label)
    ax.set_yticks(range(len(lanes)), [f"thread {int(lane.thread)}" for lane in lanes])
    ax.set_ylim(len(lanes) - 0.4, -0.6)
    _legend(ax)
    return ax
