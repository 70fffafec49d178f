# SPDX-License-Identifier: MIT
"""Answers for people: tables, stacks, source and hex dumps in a notebook, plain tables elsewhere.

Everything that comes from a recording is escaped. An address or a time shows on hover which questions it
leads to; a click copies the first of them (in the classic notebook: puts it into a new cell). Without
scripts (an exported or untrusted notebook) the hover still works.
"""

from __future__ import annotations

import html
import os
from typing import TYPE_CHECKING, Any, Optional

from .values import Address, Time

if TYPE_CHECKING:
    from .result import Result, Row

_ROWS = 50
_TEXT = 120

_STYLE = """<style>
.ttq table{border-collapse:collapse;font-family:var(--jp-code-font-family,monospace);font-size:12px}
.ttq table th{text-align:left!important;border-bottom:1px solid #888;padding:2px 10px 2px 0}
.ttq table td{text-align:left!important;padding:1px 10px 1px 0;vertical-align:top;white-space:pre}
.ttq table td.n{text-align:right!important}
.ttq a{color:#1f6fb2;text-decoration:none;border-bottom:1px dotted #1f6fb2;cursor:pointer}
.ttq .fn{color:#1b7f3b;font-weight:bold}.ttq .dim{color:#777}.ttq .now{background:#fff3b0}
.ttq .note{color:#8a5a00;font-size:12px;margin-top:3px}
</style>"""

_CLICK = ("var q=this.getAttribute('data-ttq');"
          "if(window.Jupyter&&Jupyter.notebook&&Jupyter.notebook.insert_cell_below)"
          "{Jupyter.notebook.insert_cell_below('code').set_text('%%ttq\\n'+q)}"
          "else if(navigator.clipboard){navigator.clipboard.writeText(q)}return false")


def _link(shown: str, questions: list[str]) -> str:
    hover = html.escape("ask:\n  " + "\n  ".join(questions), quote=True)
    return (f'<a href="#" title="{hover}" data-ttq="{html.escape(questions[0], quote=True)}" '
            f'onclick="{html.escape(_CLICK, quote=True)}">{html.escape(shown)}</a>')


def follow_ups(value: Any, column: str, time: Optional[int]) -> list[str]:
    """The questions that an address or a time leads to."""
    if isinstance(value, Time):
        t = int(value)
        return [f"backtrace at {t}", f"registers at {t}", f"py backtrace at {t}", f"source at {t}"]
    if isinstance(value, Address):
        if column == "pc":
            return [f"executions of {value}", f"disassemble {value}"]
        before = f" before {int(time)}" if time is not None else ""
        at = f" at {int(time)}" if time is not None else ""
        return [f"last write to {value}{before}", f"memory {value} len 64{at}", f"heap {value}{at}",
                f"creation of {value}{before}"]
    return []


def _shorten(text: str, length: int = _TEXT) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _visible(c: str) -> str:
    code = ord(c)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\t" else _visible(c) for c in text)


def _escape(value: Any) -> str:
    """What a program chose, as text of a page."""
    return html.escape(_printable(str(value)), quote=True)


def value_text(value: Any) -> str:
    """A value on one line."""
    if value is None:
        return "-"
    if isinstance(value, (bytes, bytearray)):
        return _shorten(value.hex(" "), 3 * 16) + (f" ({len(value)} bytes)" if len(value) > 16 else "")
    if isinstance(value, dict):
        if {"function", "file", "line"} <= set(value):
            return place_text(value.get("function"), None, value.get("file"), value.get("line"))
        return _shorten(", ".join(f"{k}={value_text(v)}" for k, v in value.items()))
    if isinstance(value, list):
        return _shorten("[" + ", ".join(value_text(v) for v in value[:20]) + ("…" if len(value) > 20 else "") + "]")
    if isinstance(value, (Address, Time)):
        return str(value) if isinstance(value, Address) else str(int(value))
    return _shorten(_printable(str(value)))


def place_text(function: Any, module: Any, file: Any, line: Any) -> str:
    text = str(function) if function else "??" if module else "-"
    if file:
        text += f" at {os.path.basename(str(file))}" + (f":{line}" if line is not None else "")
    return _printable(text + (f" ({module})" if module else ""))


def _place_html(row: "Row") -> str:
    function, module, file, line = (row[name] for name in ("function", "module", "file", "line"))
    text = f'<span class="fn">{_escape(function)}</span>' if function else "-"
    if file:
        text += (f' <span class="dim" title="{_escape(file)}">at {_escape(os.path.basename(str(file)))}:{line}'
                 "</span>")
    if module:
        text += f' <span class="dim">({_escape(module)})</span>'
    return text


def _cell(value: Any, column: str, time: Optional[int]) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict) and "function" in value[0]:
        frames = "".join(f"<div>{html.escape(value_text(frame))}</div>" for frame in value)
        return f"<details><summary>{len(value)} frames</summary>{frames}</details>"
    questions = follow_ups(value, column, time)
    text = value_text(value)
    return _link(text, questions) if questions else html.escape(text)


def _shown_columns(result: "Result") -> tuple[list[str], bool]:
    """The columns of a table, and whether `function` stands for the whole place."""
    names = [c.name for c in result.columns]
    shown = [c.name for c in result.columns if c.shown]
    merged = "function" in shown and "file" not in shown and {"module", "file", "line"} <= set(names)
    if not merged and {"function", "module", "file", "line"} <= set(shown):
        merged = True
        shown = [name for name in shown if name not in ("module", "file", "line")]
    return shown, merged


def _source_line(file: Any, line: Any) -> str:
    """A line of source as it is on disk now; "" when it cannot be read."""
    if not file or not line:
        return ""
    try:
        with open(file, encoding="utf-8", errors="replace") as source:
            for number, text in enumerate(source, 1):
                if number == line:
                    return text.rstrip("\n")
                if number > 200_000:
                    break
    except OSError:
        pass
    return ""


def _stack(rows: list["Row"], names: list[str]) -> str:
    lines = []
    threads = {row.thread for row in rows} if "thread" in names else set()
    thread = None
    for row in rows:
        if len(threads) > 1 and row.thread != thread:
            thread = row.thread
            lines.append(f"<tr><th colspan=2>thread {value_text(thread)}</th></tr>")
        place = _place_html(row) if "module" in names else \
            f'<span class="fn">{_escape(row.function)}</span> <span class="dim">at ' \
            f"{html.escape(value_text(row.file))}:{row.line}</span>"
        arguments = row["args"] if "args" in names else None
        if isinstance(arguments, dict):
            place += f'<span class="dim">({html.escape(value_text(arguments))})</span>'
        text = (row["source"] if "source" in names else None) or _source_line(row.file, row.line)
        source = f'\n    <span class="dim">{_escape(_shorten(text.strip()))}</span>' if text else ""
        lines.append(f'<tr><td class="n dim">#{value_text(row.frame)}</td><td>{place}{source}</td></tr>')
    return f"<table>{''.join(lines)}</table>"


def _source(rows: list["Row"], names: list[str]) -> str:
    text_name = next(name for name in ("text", "source") if name in names)
    lines = []
    for row in rows:
        current = str(row["current"] or "").strip() if "current" in names else ""
        lines.append(f'<tr{" class=now" if current else ""}><td class="n dim">{value_text(row.line)}</td>'
                     f"<td>{_escape(row[text_name] or '')}</td></tr>")
    return f"<table>{''.join(lines)}</table>"


def _hex_dump(rows: list["Row"]) -> str:
    lines = []
    for row in rows[:_ROWS]:
        data = row.bytes or b""
        for i in range(0, min(len(data), 4096), 16):
            part = data[i:i + 16]
            text = "".join(chr(b) if 32 <= b < 127 else "." for b in part)
            lines.append(f"<tr><td>{_cell(Address(row.address + i), 'address', None)}</td>"
                         f"<td>{part.hex(' ')}</td><td>{html.escape(text)}</td></tr>")
    return f"<table>{''.join(lines)}</table>"


def _table(result: "Result", rows: list["Row"]) -> str:
    shown, merged = _shown_columns(result)
    types = {c.name: c.type for c in result.columns}
    head = "".join(f"<th>{'where' if merged and name == 'function' else _escape(name)}</th>" for name in shown)
    body = []
    for row in rows:
        time = row.time if "time" in types else None
        cells = []
        for name in shown:
            if merged and name == "function":
                cells.append(f"<td>{_place_html(row)}</td>")
                continue
            kind = " class=n" if types[name] in ("time", "integer") else ""
            cells.append(f"<td{kind}>{_cell(row[name], name, time)}</td>")
        body.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><tr>{head}</tr>{''.join(body)}</table>"


def _record(result: "Result", row: "Row") -> str:
    time = row.time if "time" in row.keys() else None
    lines = []
    place = {"function", "module", "file", "line"} <= set(row.keys())
    for name, value in row.asdict().items():
        if (place and name in ("module", "file", "line")) or (name == "python" and value is None):
            continue
        cell = _place_html(row) if place and name == "function" else _cell(value, name, time)
        lines.append(f"<tr><th>{'where' if place and name == 'function' else _escape(name)}</th><td>{cell}</td></tr>")
    return f"<table>{''.join(lines)}</table>"


def _notes(result: "Result", rows: list["Row"], more: bool) -> str:
    parts = []
    if more:
        parts.append(f"the first {len(rows)} rows; there are more")
    else:
        if result.truncated:
            parts.append(f"cut after {len(rows)} rows")
        if not rows and not result.note:
            parts.append("no rows")
        if result.note:
            parts.append(result.note)
        if not result.complete:
            parts.append("the answer may be incomplete")
    return "".join(f'<div class="note">{_escape(part)}</div>' for part in parts)


def result(answer: "Result") -> str:
    """A result as HTML."""
    rows = answer.rows(_ROWS + 1)
    more = len(rows) > _ROWS
    rows = rows[:_ROWS]
    names = [c.name for c in answer.columns]
    layout = answer.layout
    if not rows:
        body = ""
    elif layout == "hex dump":
        body = _hex_dump(rows)
    elif "line" in names and "current" in names and {"text", "source"} & set(names):
        body = _source(rows, names)
    elif "frame" in names and {"function", "file", "line"} <= set(names):
        body = _stack(rows, names)
    elif layout == "record" and len(rows) == 1 and not more:
        body = _record(answer, rows[0])
    else:
        body = _table(answer, rows)
    return f'{_STYLE}<div class="ttq">{body}{_notes(answer, rows, more)}</div>'


def trail(found: Any) -> str:
    """What Trace.follow found, as HTML."""
    if not found.rows:
        return f'{_STYLE}<div class="ttq"><div class="note">nothing wrote it</div></div>'
    lines = []
    for what, row in found._lines():
        lines.append(f"<tr><td>{_cell(row.value, 'value', row.time)}</td><td>{what} at "
                     f"{_cell(row.address, 'address', row.time)}</td><td class=n>{_cell(row.time, 'time', None)}"
                     f"</td><td>{_place_html(row)}</td></tr>")
    return f'{_STYLE}<div class="ttq"><table>{"".join(lines)}</table></div>'


def plain(answer: "Result") -> str:
    """A result as text."""
    rows = answer.rows(_ROWS + 1)
    more = len(rows) > _ROWS
    rows = rows[:_ROWS]
    shown, merged = _shown_columns(answer)
    types = {c.name: c.type for c in answer.columns}
    lines = [["where" if merged and n == "function" else n for n in shown]]
    for row in rows:
        lines.append([place_text(row.function, row.module, row.file, row.line) if merged and n == "function"
                      else value_text(row[n]) for n in shown])
    widths = [max(len(line[i]) for line in lines) for i in range(len(shown))]
    out = []
    for line in lines if rows else []:
        cells = [cell.rjust(w) if types[name] in ("time", "integer") else cell.ljust(w)
                 for cell, w, name in zip(line, widths, shown)]
        out.append("  ".join(cells).rstrip())
    if more:
        out.append(f"… the first {len(rows)} rows; there are more")
    else:
        out.extend(part for part in (answer.note, "" if rows or answer.note else "no rows") if part)
    return "\n".join(out)
