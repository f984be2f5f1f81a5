"""Pages are dealt evenly, in whole runs: what Spark hashes is the number whose hash is the task."""

from __future__ import annotations

import pytest

from riverrun.spark.spreading import key_of, keys_of_tasks

NUMBERS = [*range(200), -1, -77, 2**31 - 1, -(2**31)]


@pytest.mark.spark
def test_spark_hashes_a_key_to_the_number_that_it_was_made_of(session):
    rows = session.createDataFrame([(n, key_of(n)) for n in NUMBERS], "number int, key int")
    assert {
        r["number"]: r["hashed"] for r in rows.selectExpr("number", "hash(key) AS hashed").collect()
    } == {n: n for n in NUMBERS}


@pytest.mark.parametrize(("pages", "tasks"), [(16, 2), (16, 3), (4, 4), (5, 2), (2, 3), (1, 1)])
def test_each_task_has_as_many_pages_and_neighbours_are_together(pages, tasks):
    task_of = {key_of(task): task for task in range(tasks)}
    dealt = [task_of[key] for key in keys_of_tasks(pages, tasks)]
    assert dealt == sorted(dealt)
    counts = [dealt.count(task) for task in set(dealt)]
    assert max(counts) - min(counts) <= 1
    assert len(counts) == min(pages, tasks)
