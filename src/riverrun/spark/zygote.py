"""One process that has imported everything, and is forked for each Python that Spark starts.

Spark starts about six Python processes one after the other before the first batch, and each would
import pandas, pyarrow and duckdb anew. Here they are imported once, while the JVM boots; what Spark
starts in place of Python is `zygote_client.py`, which hands its arguments, environment and standard
streams over and waits.
"""

from __future__ import annotations

import array
import contextlib
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

from riverrun import private
from riverrun.embedded import priority
from riverrun.spark import early

PRELOAD = (
    "pandas", "pyarrow.compute", "pyarrow.ipc", "duckdb", "confluent_kafka.admin",
    "pyspark.worker", "pyspark.cloudpickle",
    "pyspark.sql.worker.lookup_data_sources", "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read", "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "polars", "polars_hash",
    "riverrun.operators.registry", "riverrun.spark.exchange", "riverrun.spark.source",
    "riverrun.spark.switchboard", "riverrun.spark.writer",
)  # fmt: skip
"""Modules whose import leaves nothing running. Polars has threads from then on, but they sleep, and
hold no lock that a child would miss; those that compute start with the first query, in the child.
"""

STREAMS = 3
LONGEST_SHEBANG = 120


def start(folder: Path) -> Path | None:
    """Starts it, and returns the executable to give Spark as its Python; None if it cannot be."""
    if " " in sys.executable or len(sys.executable) > LONGEST_SHEBANG:
        return None
    address, script = folder / "zygote.sock", folder / "python"
    if len(str(address)) > LONGEST_SHEBANG - 20:
        return None
    address.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    with private.by_default():
        listener.bind(str(address))
    listener.listen(64)
    client = (Path(__file__).parent / "zygote_client.py").read_text()
    script.write_text(f"#!{sys.executable} -IS\nADDRESS = {str(address)!r}\n{client}")
    script.chmod(private.FOLDER)
    with private.opened(folder / "spark.log", "a") as log:
        early.serve(listener, log.fileno())
    listener.close()
    return script


def serve(listener: socket.socket) -> None:
    """Forks a child per request, tells its client how it ended, ends it when the client goes."""
    waiting = selectors.DefaultSelector()
    waiting.register(listener, selectors.EVENT_READ)
    waiting.register(0, selectors.EVENT_READ)
    while True:
        for key, _ in waiting.select():
            if key.fileobj == 0:
                _end_all(waiting)
                return
            if key.fileobj is listener:
                _fork(listener, waiting)
            else:
                _end(key.data, waiting)


def _fork(listener: socket.socket, waiting: selectors.BaseSelector) -> None:
    connection, _ = listener.accept()
    request, streams = _receive(connection)
    with warnings.catch_warnings():
        # from Python 3.12 on, of threads; ours sleep
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        listener.close()
        connection.close()
        waiting.close()
        _become(request, streams)
    for stream in streams:
        os.close(stream)
    connection.sendall(pid.to_bytes(4, "big"))
    child = (pid, os.pidfd_open(pid), connection)
    waiting.register(child[1], selectors.EVENT_READ, child)
    waiting.register(connection, selectors.EVENT_READ, child)


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    streams = array.array("i")
    data, ancillary, _, _ = connection.recvmsg(8, socket.CMSG_SPACE(STREAMS * streams.itemsize))
    for _, _, content in ancillary:
        streams.frombytes(content)
    length = int.from_bytes(data, "big")
    body = b""
    while len(body) < length:
        body += connection.recv(length - len(body))
    return json.loads(body), list(streams)


def _become(request: dict[str, Any], streams: list[int]) -> None:
    """In the child: be the Python that Spark asked for."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [path for path in paths if path and path not in sys.path]
    code = 1
    try:
        _run(request["arguments"])
        code = 0
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code & 0xFF)


def _run(arguments: list[str]) -> None:
    """`-m MODULE ARGUMENT…`, as the interpreter would."""
    module = arguments.index("-m") + 1
    sys.argv = arguments[module:]
    sys.modules.pop(arguments[module], None)  # imported before, but not as the main module
    runpy.run_module(arguments[module], run_name="__main__", alter_sys=True)


def _end(child: tuple[int, int, socket.socket], waiting: selectors.BaseSelector) -> None:
    pid, pidfd, connection = child
    if pidfd not in waiting.get_map():
        return
    done, status = os.waitpid(pid, os.WNOHANG)
    if done == 0:
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    waiting.unregister(pidfd)
    waiting.unregister(connection)
    os.close(pidfd)
    with contextlib.suppress(OSError):  # the client may have gone
        connection.sendall(b"%d\n" % (os.waitstatus_to_exitcode(status) & 0xFF))
    connection.close()


def _end_all(waiting: selectors.BaseSelector) -> None:
    """The run is gone: nobody may go on in its name."""
    for pid in {key.data[0] for key in waiting.get_map().values() if key.data}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


def settle() -> None:
    """Spark's workers collect garbage after every task; what is loaded by now is left out of it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def main() -> None:
    failed = ""
    try:
        for module in PRELOAD:
            __import__(module)
        settle()
    except Exception:  # told where it can be read, once that is known
        failed = traceback.format_exc()
    with socket.socket(fileno=os.dup(0)) as control:
        _, given, _, _ = socket.recv_fds(control, 1, 2)
    if not given:
        return  # nobody wants it
    listener, log = given
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    if failed:
        sys.exit(failed)
    priority.tell_session(os.getpid())
    serve(socket.socket(fileno=listener))


if __name__ == "__main__":
    main()
