# SPDX-License-Identifier: MIT
"""Batches on many machines: `ttq batch` as tasks of a Dask cluster, one task a recording.

    import ttq.cluster
    for result in ttq.cluster.batch("questions.yaml", glob.glob("/shared/run-*.ttq")):
        print(result["trace"], result["question"], result["verdict"])

Recordings lie on storage that all workers see under the same path. A worker that has no such path answers
`unreadable` for it, and so does a worker on which `ttq` cannot be run. A task whose worker dies is given to
another one; since a task's results are passed on only when all of them are there, none is lost and none
comes twice.

Needs the package `distributed` (python3-distributed) where the batch is started and on the workers; nothing
of ttq's Python package has to be installed on the workers, only the command `ttq`.
"""

from __future__ import annotations

import os
import shutil
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Union

__all__ = ["BatchError", "batch"]

Path = Union[str, "os.PathLike[str]"]


class BatchError(Exception):
    """A file of questions that `ttq batch` refuses: the text is its own."""


def _task() -> Callable[..., Dict[str, Any]]:
    """What runs on a worker: the questions in `files`, asked of one recording. An inner function is sent as
    code, not by name, so that the worker needs no ttq package."""

    def ask(command: List[str], names: List[str], files: Dict[str, bytes], trace: str) -> Dict[str, Any]:
        import json
        import os
        import subprocess
        import tempfile

        with tempfile.TemporaryDirectory(prefix="ttq-batch-") as place:
            for name, content in files.items():
                with open(os.path.join(place, name), "wb") as f:
                    f.write(content)
            questions = [os.path.join(place, name) for name in names]
            try:
                p = subprocess.run([*command, "batch", "-f", "jsonl", "-j", "1", *questions, trace],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
            except OSError as e:
                return {"unreadable": "%s cannot be run: %s" % (command[0], e.strerror)}
            reason = p.stderr.replace(place + os.sep, "").strip()
        if p.returncode == 2:
            return {"refused": reason}
        if p.returncode not in (0, 1, 3):
            return {"unreadable": "ttq batch ended with status %d: %s" % (p.returncode, reason)}
        results = [json.loads(line) for line in p.stdout.splitlines()]
        for result in results:
            result["trace"] = trace
        return {"results": results}

    return ask


def _dask() -> Any:
    try:
        import distributed
    except ImportError:
        raise ImportError("ttq.cluster needs the package `distributed` (python3-distributed)") from None
    return distributed


def batch(questions: Union[Path, Sequence[Path]], traces: Iterable[Path], client: Any = None,
          ttq: Optional[Union[str, Sequence[str]]] = None, retries: int = 3) -> Iterator[Dict[str, Any]]:
    """Asks the questions of every recording; gives the results, dicts with the keys of
    `ttq batch -f jsonl`, as they come, those of one recording together.

    `questions`: one file or several (.yaml, .ttql). What they name (`same as …`, `rows equal …`) must be
    absolute paths that the workers see. `client`: a `distributed.Client`; without one this
    machine is used, one recording per core at a time. `ttq`: the command on the workers (default: `ttq`
    of this machine's PATH, by its full path). `retries`: how many workers may die over one recording before it
    counts as unreadable.

    BatchError when the questions are refused.
    """
    distributed = _dask()
    paths = [questions] if isinstance(questions, (str, os.PathLike)) else list(questions)
    files: Dict[str, bytes] = {}
    names = []
    for i, path in enumerate(paths):
        name = "%d-%s" % (i, os.path.basename(os.fspath(path)))
        with open(path, "rb") as f:
            files[name] = f.read()
        names.append(name)
    if ttq is None:
        ttq = shutil.which("ttq") or "ttq"
    command = [ttq] if isinstance(ttq, str) else list(ttq)
    places = [os.path.abspath(os.fspath(t)) for t in traces]
    return _run(distributed, client, command, names, files, list(dict.fromkeys(places)), retries)


def _run(distributed: Any, client: Any, command: List[str], names: List[str], files: Dict[str, bytes],
         traces: List[str], retries: int) -> Iterator[Dict[str, Any]]:
    own = None
    if client is None:
        # Threads suffice: the work is done by the command.
        own = client = distributed.Client(processes=False, n_workers=1, threads_per_worker=os.cpu_count() or 1,
                                          dashboard_address=None)
    futures: Dict[Any, str] = {}
    ask = _task()
    try:
        for trace in traces:
            # Not pure: two batches may ask the same after the recording has grown.
            future = client.submit(ask, command, names, files, trace, pure=False, retries=retries)
            futures[future] = trace
        for future in distributed.as_completed(list(futures)):
            trace = futures.pop(future)
            try:
                answer = future.result()
            except Exception as e:  # pylint: disable=broad-except  # whatever the cluster met
                answer = {"unreadable": "the cluster gave up on it: %s" % e}
            future.release()
            if "refused" in answer:
                raise BatchError(answer["refused"])
            if "unreadable" in answer:
                yield {"trace": trace, "question": "", "query": "", "expect": "", "verdict": "unreadable",
                       "rows": 0, "more": False, "complete": False, "detail": answer["unreadable"],
                       "first_rows": [], "elapsed_ms": 0.0}
            else:
                yield from answer["results"]
    finally:
        if futures:
            client.cancel(list(futures))
        if own is not None:
            own.close()
