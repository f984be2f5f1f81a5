"""Folders and files of file systems that are not this machine's, by their URL.

They have the part of `Path` that is asked of checkpoints, so that what reads one does not know
where it is. What is written is there as a whole or not at all; nothing can be changed in place.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from riverrun.errors import CheckpointAway, ConfigError

if TYPE_CHECKING:
    from pyarrow import NativeFile
    from pyarrow.fs import FileInfo, FileSystem

URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://")
HADOOP = "spark.hadoop."
"""Settings of Spark that are those of its file systems."""
Given = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class FarPath:
    url: str
    """Without a slash at its end."""
    given: Given = field(default=(), repr=False)
    """What Spark is told of its file systems, secrets included."""

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, name: str) -> FarPath:
        return FarPath(f"{self.url}/{name}", self.given)

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]

    @property
    def parent(self) -> FarPath:
        return FarPath(self.url.rpartition("/")[0], self.given)

    def exists(self) -> bool:
        return self._about() is not None

    def is_dir(self) -> bool:
        found = self._about()
        return found is not None and not found.is_file

    def iterdir(self) -> Iterator[FarPath]:
        """An error if there is none."""
        for each in self._listed(recursive=False):
            yield self / each.base_name

    def files(self) -> list[tuple[str, int]]:
        """See the function of this name."""
        try:
            found = [each for each in self._listed(recursive=True) if each.is_file]
        except FileNotFoundError:
            return []
        root = len(self._path) + 1
        return sorted((each.path[root:], each.size) for each in found)

    def size(self) -> int:
        """Of a file; 0 if it is not there."""
        found = self._about()
        return found.size if found is not None and found.is_file else 0

    def read_bytes(self) -> bytes:
        with self.open() as file, self.told():
            data: bytes = file.read()
        return data

    def read_text(self) -> str:
        return self.read_bytes().decode()

    def open(self, mode: Literal["rb"] = "rb") -> Any:
        with self.told():
            return self._system.open_input_file(self._path)

    def pieces(self) -> FarPieces:
        """The file, of which only what is asked for is fetched."""
        with self.told():
            return FarPieces(self, self._system.open_input_file(self._path))

    def write_bytes(self, data: bytes) -> None:
        self.copy(io.BytesIO(data))

    def copy(self, content: IO[bytes]) -> None:
        """The file is as it was, or has all of the content."""
        kind, draft = _kind(self.url), self.parent / f".{self.name}.{uuid.uuid4().hex}.tmp"
        path = self._path if kind.whole else draft._path
        with self.told():
            if not kind.whole:
                self._system.create_dir(self.parent._path, recursive=True)
            with self._system.open_output_stream(path) as out:
                shutil.copyfileobj(content, out)
            if not kind.whole:
                self._system.move(path, self._path)

    def write_text(self, text: str) -> None:
        self.write_bytes(text.encode())

    def unlink(self, *, missing_ok: bool = False) -> None:
        with suppress(FileNotFoundError) if missing_ok else nullcontext(), self.told():
            self._system.delete_file(self._path)

    def remove(self) -> None:
        """The folder with all that is in it, if it is there."""
        with suppress(FileNotFoundError), self.told():
            self._system.delete_dir(self._path)

    @property
    def _system(self) -> FileSystem:
        root = urlsplit(self.url)
        return _system(root.scheme, root.netloc, self.given, os.getpid())

    @property
    def _path(self) -> str:
        root = urlsplit(self.url)
        return f"{root.netloc}{root.path}" if _kind(self.url).bucket else root.path

    def _about(self) -> FileInfo | None:
        with self.told():
            [found] = self._system.get_file_info([self._path])
        return None if found.type.name == "NotFound" else found

    def _listed(self, *, recursive: bool) -> list[FileInfo]:
        from pyarrow.fs import FileSelector  # noqa: PLC0415 - only who has something far needs it

        with self.told():
            found: list[FileInfo] = self._system.get_file_info(
                FileSelector(self._path, recursive=recursive)
            )
        return found

    @contextmanager
    def told(self) -> Iterator[None]:
        """Errors of the file system, with what to do."""
        try:
            yield
        except (FileNotFoundError, FileExistsError):
            raise
        except OSError as error:
            raise CheckpointAway(
                "the file system does not answer, or refuses",
                where=self.url,
                got=str(error).splitlines()[0][:300],
                hint=_kind(self.url).hint,
            ) from error


@dataclass(frozen=True)
class FarPieces:
    """A file that is read as if it were bytes: `pieces[10:20]`."""

    path: FarPath
    file: NativeFile

    def __len__(self) -> int:
        with self.path.told():
            return int(self.file.size())

    def __getitem__(self, piece: slice) -> bytes:
        start, end, _ = piece.indices(len(self))
        with self.path.told():
            self.file.seek(start)
            return bytes(self.file.read(end - start))


AnyPath = Path | FarPath


def remove(folder: AnyPath) -> None:
    """With all that is in it, if it is there."""
    if isinstance(folder, FarPath):
        folder.remove()
    else:
        shutil.rmtree(folder, ignore_errors=True)


def files(folder: AnyPath) -> list[tuple[str, int]]:
    """All that are in it, however deep: the path in it and the size; none if it is not there."""
    if isinstance(folder, FarPath):
        return folder.files()
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted((path.relative_to(folder).as_posix(), path.stat().st_size) for path in found)


@dataclass(frozen=True)
class Kind:
    """A kind of file system: what opens it, by the host of a URL and Spark's settings."""

    open: Callable[[str, Mapping[str, str]], FileSystem]
    hint: str
    bucket: bool = False
    """Whether its paths begin with what a URL has as its host."""
    whole: bool = False
    """Whether a file that is being written is not seen before it is whole."""


def parsed(url: str, spark: Mapping[str, str]) -> FarPath:
    """An error if nobody knows such a file system, or what opens it is not installed."""
    found = FarPath(url.rstrip("/"), _given(spark))
    root, kind = urlsplit(found.url), _kind(url)
    if (kind.bucket and not root.netloc) or not root.path.strip("/"):
        raise ConfigError(
            "a folder for checkpoints is missing", got=repr(url),
            hint=f"write it as {root.scheme}://{root.netloc or 'NAME'}/FOLDER",
        )  # fmt: skip
    return found


def _given(spark: Mapping[str, str]) -> Given:
    return tuple(
        (name.removeprefix(HADOOP), value)
        for name, value in sorted(spark.items())
        if name.startswith(HADOOP)
    )


def _kind(url: str) -> Kind:
    scheme = urlsplit(url).scheme
    if scheme not in KINDS:
        known = ", ".join(f"{each}://" for each in KINDS)
        also = "; s3:// is written as s3a://, the name that Hadoop has for it"
        raise ConfigError(
            f"nobody here knows the file system {scheme}://",
            got=repr(url),
            hint=f"known are {known}, and paths of this machine{also if scheme == 's3' else ''}",
        )
    return KINDS[scheme]


@cache
def _system(scheme: str, host: str, given: Given, _process: int) -> FileSystem:
    """One for each process: what a fork inherits of a client does not work."""
    return KINDS[scheme].open(host, dict(given))


def _local(host: str, given: Mapping[str, str]) -> FileSystem:
    from pyarrow.fs import LocalFileSystem  # noqa: PLC0415 - as above

    return LocalFileSystem()


def _s3(host: str, given: Mapping[str, str]) -> FileSystem:
    """By the settings that Hadoop's client goes by; what is not set there, by the environment."""
    from pyarrow.fs import S3FileSystem  # noqa: PLC0415 - as above

    def of(name: str) -> str | None:
        return given.get(f"fs.s3a.bucket.{host}.{name}", given.get(f"fs.s3a.{name}"))

    endpoint, secure = of("endpoint"), of("connection.ssl.enabled") != "false"
    options: dict[str, Any] = {
        "access_key": of("access.key"),
        "secret_key": of("secret.key"),
        "session_token": of("session.token"),
        "region": of("endpoint.region") or ("us-east-1" if endpoint else None),
        "endpoint_override": endpoint and re.sub("^https?://", "", endpoint),
        "scheme": "http" if (endpoint or "").startswith("http://") or not secure else "https",
        "force_virtual_addressing": bool(endpoint) and of("path.style.access") != "true",
        "allow_delayed_open": True,  # a small file is one request, not three
        "request_timeout": 10,
        "connect_timeout": 5,
    }
    return S3FileSystem(**{name: value for name, value in options.items() if value is not None})


def _hdfs(scheme: str) -> Callable[[str, Mapping[str, str]], FileSystem]:
    def opened(host: str, given: Mapping[str, str]) -> FileSystem:
        from pyarrow.fs import FSSpecHandler, PyFileSystem  # noqa: PLC0415 - as above

        try:
            from hdfs_native import fsspec  # noqa: PLC0415 - only who has HDFS needs it
        except ImportError as error:
            raise ConfigError(
                f"{scheme}:// needs the package hdfs-native", got=str(error),
                hint="pip install 'riverrun[hdfs]'",
            ) from error  # fmt: skip
        base = fsspec.HdfsFileSystem if scheme == "hdfs" else fsspec.ViewfsFileSystem

        class Replacing(base):  # type: ignore[misc,valid-type]
            def mv(self, path1: str, path2: str, **_: Any) -> None:
                super().mv(path1, path2, overwrite=True)

        name, _, port = host.partition(":")
        if port:  # the client would try for ever
            socket.create_connection((name, int(port)), timeout=10).close()
        system = Replacing(name or None, int(port) if port else None, **given)
        return PyFileSystem(FSSpecHandler(system))

    return opened


KINDS = {
    "file": Kind(_local, "may this user write there?"),
    "s3a": Kind(
        _s3,
        "is there such a bucket? [spark] says where S3 is and who asks: spark.hadoop.fs.s3a."
        "endpoint, .access.key, .secret.key; else it is AWS, and who the environment says",
        bucket=True,
        whole=True,
    ),
    "hdfs": Kind(_hdfs("hdfs"), "does the name node run, and may this user write there?"),
    "viewfs": Kind(_hdfs("viewfs"), "do the name nodes run, and may this user write there?"),
}
