"""PostgreSQL to a search index, a cache and a lake on Spark: in the end all are the table."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from deltalake import DeltaTable

from riverrun.cache import Cache
from riverrun.search import Index
from running import PATIENCE, Run

PROGRAM = """
import riverrun as rr
app = rr.App({name!r}, pages=4)
users = app.capture({table!r}, name={name!r})
users.to(
    rr.sinks.search_index({name!r}, text="bio", folder={folder!r} + "/index"),
    rr.sinks.cache({name!r}),
    rr.sinks.delta({folder!r} + "/lake"),
)
"""


@pytest.mark.broker
@pytest.mark.spark
def test_three_derived_systems_equal_the_database_after_a_kill(
    source, broker_settings, valkey, tmp_path
):
    source.execute("CREATE TABLE @users (id bigint PRIMARY KEY, name text, bio text)")
    source.execute(
        "INSERT INTO @users SELECT n, 'user ' || n, 'likes fish ' || n % 7 "
        "FROM generate_series(1, 300) AS n"
    )
    name, program = source.schema, tmp_path / "derived.py"
    program.write_text(
        PROGRAM.format(name=name, table=f"{source.schema}.users", folder=str(tmp_path))
    )
    with Run(program, home=broker_settings.home) as run:
        run.until(300)
        source.execute("UPDATE @users SET bio = 'likes birds' WHERE id % 3 = 0")
        source.execute("DELETE FROM @users WHERE id % 5 = 0")
        run.kill()
    source.execute("UPDATE @users SET id = id + 1000 WHERE id < 10")
    wanted = {row[0]: row[1:] for row in source.execute("SELECT id, name, bio FROM @users")}
    with Run(program, home=broker_settings.home) as run:
        give_up = time.monotonic() + 2 * PATIENCE  # Spark starts again, with a killed batch first
        while held(name, tmp_path) != [wanted] * 3:
            assert run.process.poll() is None, run.error()
            assert time.monotonic() < give_up, run.error()
            time.sleep(0.3)
        run.stop()
    assert Index(tmp_path / "index").search("birds", limit=1).total == sum(
        bio == "likes birds" for _, bio in wanted.values()
    )


def held(name: str, folder: Path) -> list[dict[int, tuple[str, str]]]:
    """What each has, row by row."""
    found = (
        Index(folder / "index").rows(),
        Cache(name).rows(),
        DeltaTable(folder / "lake").to_pyarrow_table().to_pylist(),
    )
    return [{row["id"]: (row["name"], row["bio"]) for row in rows} for rows in found]
