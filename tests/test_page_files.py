"""Pages in files: what a batch finds of the one before, whoever wrote it, and what is swept."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riverrun.errors import CheckpointError
from riverrun.far import FarPath
from riverrun.kernels import page_files
from riverrun.kernels.page_files import PageFiles
from riverrun.kernels.state import Names

PAGES = 6
NOTHING: dict[int, list[str]] = {page: [] for page in range(PAGES)}


def head_of(names):
    return json.dumps({"segments": {"step": {"rows": names}}}).encode()


def write(files, batch, parts, listed, added):
    """`listed` are the names that heads hold by page, `added` what the batch brings of them."""
    for part in range(parts):
        own = [page for page in range(PAGES) if page % parts == part]
        with files.writer(batch, part) as out:
            for page in own:
                for name, data in added.get(page, ()):
                    out.put(page, name, data)
            out.finish({page: head_of(listed[page]) for page in own})


@pytest.fixture(params=["here", "far"])
def folder(request, tmp_path):
    return tmp_path / "0" if request.param == "here" else FarPath(f"file://{tmp_path}/0")


def test_a_batch_finds_heads_and_segments_however_they_were_dealt(folder):
    one, two = Names(1), Names(2)
    rows = {page: b"rows of %d" % page for page in range(PAGES)}
    added = {page: [(one.of(rows[page]), rows[page])] for page in range(PAGES)}
    listed = {page: [added[page][0][0]] for page in range(PAGES)}
    write(PageFiles(folder), 1, 2, listed, added)
    more = {0: [(two.of(b"more"), b"more")]}
    listed[0] = [*listed[0], more[0][0][0]]
    write(PageFiles(folder), 2, 3, listed, more)
    files = PageFiles(folder)
    for part in range(5):
        heads = files.heads(2, range(PAGES), part)
        assert heads == {page: head_of(listed[page]) for page in range(PAGES)}
        for page in range(PAGES):
            assert files.segment(page, listed[page][0], part) == b"rows of %d" % page
    assert files.segment(0, listed[0][1], 1) == b"more"
    assert files.heads(3) == {}
    assert (files.parts(1), files.parts(2)) == ([0, 1], [0, 1, 2])


def test_what_is_missing_is_told(folder):
    write(PageFiles(folder), 1, 1, NOTHING, {})
    with pytest.raises(CheckpointError, match="not whole"):
        PageFiles(folder).segment(0, "1-1-ab")


@pytest.mark.parametrize("damage", ["empty", "cut", "index", "rows"])
def test_what_is_damaged_is_told_and_not_read(folder, damage):
    name, files = Names(1).of(b"rows"), PageFiles(folder)
    write(files, 1, 1, NOTHING | {0: [name]}, {0: [(name, b"rows")]})
    path = folder / "1-0.pages"
    content = bytearray(path.read_bytes())
    if damage == "index":
        content[content.index(b"heads")] ^= 1
    if damage == "rows":
        content[0] ^= 1
    path.unlink()
    path.write_bytes({"empty": b"", "cut": bytes(content[:-40])}.get(damage, bytes(content)))
    with pytest.raises(CheckpointError, match="a file of the state is damaged"):
        PageFiles(folder).segment(0, name)


def test_all_that_the_next_batch_begins_with_is_asked_for(folder):
    name, files = Names(1).of(b"rows"), PageFiles(folder)
    write(files, 1, 1, NOTHING | {0: [name]}, {0: [(name, b"rows")]})
    write(files, 2, 1, NOTHING | {0: [name]}, {})
    PageFiles(folder).require(2)
    with pytest.raises(CheckpointError, match="not whole"):
        PageFiles(folder).require(3)
    (folder / "1-0.pages").unlink()
    with pytest.raises(CheckpointError, match="not whole"):
        PageFiles(folder).require(2)


def test_a_file_that_is_not_finished_is_not_there(folder):
    files = PageFiles(folder)
    with files.writer(1, 0) as out:
        out.put(0, "1-1-ab", b"rows")
    assert files.heads(1) == {}
    left = None if isinstance(folder, FarPath) else folder / ".2-1.pages.77.tmp"
    if left is not None:
        left.write_text("of a process that was killed")
    write(files, 1, 1, NOTHING, {})
    write(files, 2, 1, NOTHING, {})
    files.remove_after(1)
    again = PageFiles(folder)
    assert len(again.heads(1)) == PAGES
    assert again.heads(2) == {}
    if not isinstance(folder, FarPath):
        assert [each.name for each in folder.iterdir()] == ["1-0.pages"]


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_what_any_batch_since_then_lists_is_left_and_the_rest_is_swept(data, tmp_path_factory):
    """Segments come, are merged and go at random; the number of parts changes."""
    folder = tmp_path_factory.mktemp("swept") / "0"
    files, listed = PageFiles(folder), dict[int, list[str]]({page: [] for page in range(PAGES)})
    content, heads = {}, {}
    last = data.draw(st.integers(3, 25))
    for batch in range(1, last + 1):
        parts, added = data.draw(st.integers(1, 3)), {}
        for page in range(PAGES):
            names, kept = Names(batch), data.draw(st.sampled_from(["all", "none", "last"]))
            listed[page] = {"all": listed[page], "none": [], "last": listed[page][-1:]}[kept]
            if data.draw(st.booleans()):
                name = names.of(b"%d" % batch)
                added[page], content[page, name] = [(name, b"%d" % batch)], b"%d" % batch
                listed[page] = [*listed[page], name]
        write(files, batch, parts, listed, added)
        heads[batch] = {page: list(names) for page, names in listed.items()}
    since = data.draw(st.integers(1, last))
    files.sweep(since, PAGES)
    found = PageFiles(folder)
    needed = set(range(since, last + 1))
    for batch in range(since, last + 1):
        assert found.heads(batch) == {p: head_of(names) for p, names in heads[batch].items()}
        for page, names in heads[batch].items():
            for name in names:
                assert found.segment(page, name) == content[page, name]
                needed.add(int(name.split("-")[0]))
    assert {int(each.name.split("-")[0]) for each in folder.iterdir()} <= needed


def test_nothing_is_swept_unless_all_heads_are_there(tmp_path):
    files = PageFiles(tmp_path / "0")
    for batch in (1, 2):
        write(files, batch, 1, NOTHING, {})
    files.sweep(2, PAGES + 1)
    assert files.parts(1) == [0]
    files.sweep(2, PAGES)
    assert files.parts(1) == []


def test_exchanges_have_folders_of_their_own(tmp_path):
    for level in (0, 1):
        write(page_files.place(tmp_path, level), 1, 1, NOTHING, {})
    assert list(page_files.places(tmp_path)) == [0, 1]
    assert page_files.places(tmp_path / "nothing") == {}
