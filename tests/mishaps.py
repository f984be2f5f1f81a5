"""A story told to a driver that dies and starts again all the time."""

from __future__ import annotations

from riverrun.testing import Driver, Lines
from riverrun.testing.drawn import parse, records


def disturbed(driver: Driver, topic: str, story: str) -> Lines:
    """Runs the drawn batches; each is run once in vain, and every worker forgets what it knew."""
    found = Lines()
    for batch in records(parse(story), driver.program.source(topic)):
        for record in batch:
            driver.topics.append(topic, record)
        driver.crash()
        found += driver.batch()
        driver.restart()
    return found


def assert_mishaps_change_nothing(make, topic: str, story: str) -> Lines:
    """Crashes, restarts and a replay give the lines of an undisturbed run, which are returned."""
    driver = make()
    lines = driver.run(**{topic: story})
    assert disturbed(make(), topic, story) == lines
    assert driver.replay() == lines
    return lines
