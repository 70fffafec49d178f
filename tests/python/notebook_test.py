#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""notebook_test TTQ PYTHONPATH [--screenshot PNG]: examples/corrupted-object/crash-to-cause.ipynb in a real kernel.

Records the program, executes the notebook, and checks what its cells gave: no error, the right line of C, and
pictures with something in them. Then the notebook as a page in a headless Chromium, whose screenshot must show
something too (--screenshot keeps it). Exit status 77: a package is missing; says which.
"""

import base64
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile

try:
    import PIL.Image
    import matplotlib.image
    import nbformat
    from nbclient import NotebookClient
    from nbconvert import HTMLExporter
    import ipykernel  # noqa: F401
    import pandas  # noqa: F401
except ImportError as e:
    print(f"skipped: {e}; the group `test` of packages.txt has it")
    sys.exit(77)

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "corrupted-object")
ttq, package = map(os.path.abspath, sys.argv[1:3])
keep = sys.argv[4] if sys.argv[3:4] == ["--screenshot"] else None


def fail(text):
    sys.exit(f"notebook_test: {text}")


def record(scratch):
    subprocess.run(["make", "-s", "--no-print-directory", "-C", EXAMPLE, f"OUT={scratch}"], check=True)
    trace = os.path.join(scratch, "report.ttq")
    env = {**os.environ, "PYTHONPATH": scratch, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run([ttq, "record", "-o", trace, "/usr/bin/python3", "report.py"], cwd=EXAMPLE, env=env,
                         capture_output=True, text=True)
    if run.returncode != 128 + 11:
        fail(f"the program ended with {run.returncode}, not with SIGSEGV:\n{run.stderr}")
    return trace


def check_picture(png, what):
    pixels = matplotlib.image.imread(io.BytesIO(png))[..., :3]
    if pixels.shape[0] < 100 or pixels.shape[1] < 300:
        fail(f"{what} has only {pixels.shape[1]} x {pixels.shape[0]} pixels")
    colours = {tuple(p) for p in (pixels.reshape(-1, 3)[::7] * 15).astype(int).tolist()}
    drawn = (pixels.min(axis=2) < 0.9).mean()
    if len(colours) < 8 or drawn < 0.003:
        fail(f"{what} is empty: {len(colours)} colours, {drawn:.2%} of it drawn")


def check_cells(notebook):
    text, pictures = "", []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                fail(f"a cell failed:\n{cell.source}\n{output.evalue}")
            text += output.get("text", "")
            data = output.get("data", {})
            text += data.get("text/html", "") + data.get("text/plain", "")
            if "image/png" in data:
                pictures.append(base64.b64decode(data["image/png"]))
    with open(os.path.join(EXAMPLE, "weather.c"), encoding="utf-8") as source:
        line = next(n for n, l in enumerate(source, 1) if "place->celsius = " in l)
    for expected in (rf"day_add at \S*weather\.c:{line} wrote 0x40\w+ over 0x\w+", "_PyEval_EvalFrameDefault", "builtin_sorted", r"days\[int\(station\)\]\.add",
                     r"<td>celsius</td>",
                     "SIGSEGV", r"\d+ temperatures, [1-9]\d* of them over an object's type",
                     r'data-ttq="last write to 0x', 'class="fn">day_add'):
        if not re.search(expected, text):
            fail(f"nothing in the outputs is like {expected}:\n{text}")
    if "ttq: " in text:
        fail(f"a question was not answered:\n{text}")
    if len(pictures) != 3:
        fail(f"there are {len(pictures)} pictures, not 3")
    for i, png in enumerate(pictures, 1):
        check_picture(png, f"picture {i}")


def browse(page, scratch):
    chromium = shutil.which("chromium")
    if not chromium:
        print("the browser was left out: there is no chromium")
        return
    shot = os.path.join(scratch, "page.png")
    # A profile of its own, and nothing that would talk to anybody.
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--hide-scrollbars", f"--user-data-dir={scratch}/chromium", f"--screenshot={shot}",
             "--window-size=1100,5000", "--virtual-time-budget=3000"]
    env = {**os.environ, "HOME": scratch}
    run = subprocess.run([chromium, *flags, "file://" + page], capture_output=True, text=True, timeout=180, env=env)
    if not os.path.exists(shot):
        fail(f"chromium made no screenshot (exit {run.returncode}):\n{run.stderr}")
    with open(shot, "rb") as file:
        check_picture(file.read(), "the page in the browser")
    if keep:
        pixels = matplotlib.image.imread(shot)
        last = (pixels[..., :3].min(axis=(1, 2)) < 0.95).nonzero()[0][-1]
        buffer = io.BytesIO()
        matplotlib.image.imsave(buffer, pixels[: last + 30])
        PIL.Image.open(buffer).convert("RGB").quantize(64).save(keep, optimize=True)


def main():
    with tempfile.TemporaryDirectory(prefix="ttq-notebook-") as scratch:
        path = os.path.join(EXAMPLE, "crash-to-cause.ipynb")
        notebook = nbformat.read(path, as_version=4)
        if any(cell.get("outputs") for cell in notebook.cells):
            fail("the notebook is kept without outputs")
        os.environ.update(TTQ_TRACE=record(scratch), PYTHONPATH=package, IPYTHONDIR=f"{scratch}/ipython",
                          JUPYTER_RUNTIME_DIR=f"{scratch}/jupyter", MPLCONFIGDIR=f"{scratch}/matplotlib",
                          JUPYTER_PLATFORM_DIRS="0")
        NotebookClient(notebook, timeout=300, kernel_name="python3",
                       resources={"metadata": {"path": scratch}}).execute()
        check_cells(notebook)
        # Without what the page would get from the network.
        html, _ = HTMLExporter(mathjax_url="", require_js_url="").from_notebook_node(notebook)
        page = os.path.join(scratch, "page.html")
        with open(page, "w", encoding="utf-8") as file:
            file.write(html)
        browse(page, scratch)
    print("all good")


main()
