"""Backup and restore of a checkpoint, as one archive that is checked when it is read.

A restored checkpoint has a new id. Progress at destinations is kept under the id: under the old one
they would know batches that the restored checkpoint has still to run, and leave them out.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tarfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import IO, Any

import pyarrow as pa

from riverrun import private
from riverrun.config import Settings
from riverrun.errors import CheckpointError, InputError
from riverrun.far import AnyPath, FarPath, files
from riverrun.runtime import checkpoint, claims, copying, repage, runs

FORMAT = 1
MANIFEST = "manifest.json"
FOLDER = "checkpoint"
LEFT_OUT = (checkpoint.LOCK, claims.FOLDER, runs.FILE, "stop", repage.DRAFT, copying.DRAFT)
"""What is of a run, not of the checkpoint, or of a copy that was broken off."""
PIECE = 1 << 20

Progress = Callable[[int, int], None]
"""How many bytes are done, of how many."""


@dataclass(frozen=True)
class Manifest:
    """What an archive holds. It is its last member: its hashes are known only then."""

    application: str
    riverrun: str
    made_at: str
    format: int = FORMAT
    files: dict[str, str] = field(default_factory=dict)
    """The SHA-256 of each file, by its path in the checkpoint."""


def backup(settings: Settings, application: str, file: Path, progress: Progress) -> Manifest:
    """Writes the archive. It is there as a whole, or not at all."""
    folder = settings.checkpoint_of(application)
    if not (folder / "query").is_dir():
        raise InputError(
            f"the application {application!r} has no checkpoint",
            where=folder,
            hint=f"there are: {', '.join(_known(folder.parent)) or 'none'}",
        )
    made_at = datetime.now(UTC).isoformat(timespec="seconds")
    manifest = Manifest(application, version("riverrun"), made_at)
    draft = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    with private.by_default(), checkpoint.held(folder, application), _removed(draft):
        checkpoint.require_whole(folder)
        chosen = [each for each in files(folder) if each[0].partition("/")[0] not in LEFT_OUT]
        total, done = sum(size for _, size in chosen), 0
        with _writing(draft, file.name) as archive:
            for inside, size in chosen:
                manifest.files[inside] = _added(archive, folder / inside, inside, size)
                done += size
                progress(done, total)
            _add_manifest(archive, manifest)
        os.replace(draft, file)
    return manifest


def restore(
    file: Path, settings: Settings, *, name: str | None, force: bool, progress: Progress
) -> Manifest:
    """Puts the checkpoint of an archive in place, after all of it was checked."""
    if name is not None:
        settings.checkpoint_of(name)  # refused before anything is unpacked
    root = settings.checkpoint_root
    here = settings.home if isinstance(root, FarPath) else root
    here.mkdir(parents=True, exist_ok=True)
    draft = here / f".restored-{uuid.uuid4().hex}"
    with private.by_default(), _removed(draft):
        manifest = _extracted(file, draft, progress)
        private.write(draft / "id", uuid.uuid4().hex)
        application = manifest.application if name is None else name
        target = settings.checkpoint_of(application)
        with checkpoint.held(target, application):
            if not force and any(each.name not in LEFT_OUT[:2] for each in target.iterdir()):
                raise CheckpointError(
                    f"the application {application!r} has a checkpoint",
                    where=target,
                    hint="--force replaces it; --as NAME restores under another name",
                )
            _replace(target, draft)
    return manifest


def _replace(target: AnyPath, draft: Path) -> None:
    if isinstance(target, FarPath):
        _sent(target, draft)
        return
    old = target.with_name(f".replaced-{uuid.uuid4().hex}")
    os.replace(target, old)
    os.replace(draft, target)
    if old.is_symlink():
        old.unlink()  # what it leads to is not ours to delete
    else:
        shutil.rmtree(old)


def _sent(target: FarPath, draft: Path) -> None:
    """File by file: until all are there, the checkpoint says that it is half of one."""
    (target / checkpoint.HALF).write_text("")
    for inside, _ in files(target):
        if inside.partition("/")[0] not in (*LEFT_OUT[:2], checkpoint.HALF):
            (target / inside).unlink(missing_ok=True)
    for inside, _ in files(draft):
        with (draft / inside).open("rb") as content:
            (target / inside).copy(content)
    (target / checkpoint.HALF).unlink()


def _extracted(file: Path, draft: Path, progress: Progress) -> Manifest:
    found: dict[str, str] = {}
    manifest, size = None, file.stat().st_size if file.exists() else 0
    with _reading(file) as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is None:
                continue
            if member.name == MANIFEST:
                manifest = _manifest(file, content.read())
            else:
                inside = _inside(file, member.name)
                found[inside] = _copied(content, draft / inside)
            progress(min(archive.offset, size), size)
    if manifest is None or found != manifest.files:
        wrong = sorted(set(found.items()) ^ set(manifest.files.items() if manifest else ()))
        what = f"{wrong[0][0]} is not what was written" if wrong else "its end is missing"
        raise InputError("the backup is damaged", where=file, got=what)
    if not any(inside.startswith("query/") for inside in found):
        raise InputError("the archive is no backup of riverrun", where=file, got="no checkpoint")
    return manifest


def _inside(file: Path, name: str) -> str:
    path = PurePosixPath(name)
    if path.parts[:1] != (FOLDER,) or ".." in path.parts or len(path.parts) < 2:
        raise InputError("the archive is no backup of riverrun", where=file, got=name)
    return str(path.relative_to(FOLDER))


def _manifest(file: Path, text: bytes) -> Manifest:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise InputError("the backup is damaged", where=file, got=f"manifest: {error}") from error
    if isinstance(found, dict) and found.get("format") != FORMAT:
        raise InputError(
            "the backup was made by another version of riverrun",
            where=file,
            got=f"format {found.get('format')}, riverrun {found.get('riverrun')}",
        )
    if not _holds(found):
        raise InputError("the backup is damaged", where=file, got="its manifest lacks something")
    return Manifest(**found)


def _holds(found: Any) -> bool:
    """Whether the manifest has all that belongs there, and nothing else."""
    texts = ("application", "riverrun", "made_at")
    return (
        isinstance(found, dict)
        and set(found) == {*texts, "format", "files"}
        and all(isinstance(found[name], str) for name in texts)
        and isinstance(found["files"], dict)
        and all(isinstance(digest, str) for digest in found["files"].values())
    )


def _add_manifest(archive: tarfile.TarFile, manifest: Manifest) -> None:
    data = json.dumps(asdict(manifest)).encode()
    member = tarfile.TarInfo(MANIFEST)
    member.size = len(data)
    archive.addfile(member, BytesIO(data))


def _added(archive: tarfile.TarFile, path: AnyPath, inside: str, size: int) -> str:
    """Adds a file, and returns its hash."""
    member = tarfile.TarInfo(f"{FOLDER}/{inside}")
    member.size = size
    with path.open("rb") as file:
        content = _Hashed(file)
        archive.addfile(member, content)
    return content.digest.hexdigest()


class _Hashed:
    """A file that is hashed as it is read."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.digest = file, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self.file.read(size)
        self.digest.update(data)
        return data


def _copied(content: IO[bytes], path: Path) -> str:
    """Writes a member to a file, and returns its hash."""
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with path.open("wb") as out:
        while piece := content.read(PIECE):
            digest.update(piece)
            out.write(piece)
    return digest.hexdigest()


def _codec(name: str, where: Path) -> str:
    if name.endswith((".tar.gz", ".tgz")):
        return "gzip"
    if name.endswith(".tar.zst"):
        return "zstd"
    raise InputError("a backup is a .tar.zst or .tar.gz file", where=where)


@contextmanager
def _writing(draft: Path, name: str) -> Iterator[tarfile.TarFile]:
    codec = _codec(name, draft.with_name(name))
    try:
        file = pa.OSFile(str(draft), "wb")
    except OSError as error:
        raise InputError("the backup cannot be written", where=draft.parent, got=error) from error
    with (
        file,
        pa.CompressedOutputStream(file, codec) as stream,
        tarfile.open(fileobj=stream, mode="w|") as archive,
    ):
        yield archive


@contextmanager
def _reading(path: Path) -> Iterator[tarfile.TarFile]:
    codec = _codec(path.name, path)
    try:
        with (
            pa.OSFile(str(path), "rb") as file,
            pa.CompressedInputStream(file, codec) as stream,
            tarfile.open(fileobj=stream, mode="r|") as archive,
        ):
            yield archive
    except FileNotFoundError as error:
        raise InputError("there is no such file", where=path) from error
    except (OSError, ValueError, tarfile.TarError) as error:
        raise InputError("the backup is damaged", where=path, got=error) from error


@contextmanager
def _removed(draft: Path) -> Iterator[None]:
    """What is left of an attempt that failed is removed."""
    try:
        yield
    finally:
        if draft.is_dir():
            shutil.rmtree(draft)
        draft.unlink(missing_ok=True)


def _known(root: AnyPath) -> list[str]:
    found = root.iterdir() if root.is_dir() else ()
    return sorted(each.name for each in found if (each / "query").is_dir())
