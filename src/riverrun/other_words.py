"""Names that riverrun does not have: what other systems call by them, and what is close to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from riverrun.errors import ProgramError, caller

GROUPED = '.group_by("key").agg(n=rr.count())'
WINDOWED = '.group_by("key").window(rr.tumbling("1 minute")).agg(n=rr.count())'
STREAM = 'app.stream("topic", schema="…")'

ROWS = {
    ".group_by(…)": "groupby groupBy groupByKey keyBy partition_by",
    '.with_columns(name="expression")': "withColumn withColumns with_column assign mutate",
    '.to("topic"), or .to(rr.sinks.postgres("table"))': "sink write writeStream sink_to produce",
    ".to(rr.sinks.screen())": "print show inspect",
    ".select(…) names what stays": "drop rename withColumnRenamed",
    GROUPED: "agg aggregate count sum reduce",
}
HINTS: Mapping[str, Mapping[str, str]] = {
    "Stream": {
        **ROWS,
        f"groups have windows: {WINDOWED}": "window",
        ".explode(…), or .process(…)": "flat_map flatMap",
        ".deduplicate(…)": "dedup drop_duplicates dropDuplicates distinct",
        ".union(…)": "merge concat union_all unionAll",
        ".where(…), once for each branch": "branch split",
        'app.stream(…, lateness="1 minute")': "with_watermark withWatermark",
        ".to_table(…)": "toTable as_table",
        "a stream is what happens; only a table has changes": "changes",
    },
    "Table": {
        **ROWS,
        "streams have it: .changes() is the stream of a table's changes": (
            "explode process union deduplicate match key_by"
        ),
        ".changes()": "to_stream toStream as_stream",
        'groups have it: .group_by("key").top(10, by="column")': "top bottom",
        "rows of a table have no window: group by window_start, or by a column": "window",
    },
    "Grouped": {
        "an aggregate first: .agg(n=rr.count())": "to through where select join",
        '.agg(n=rr.count(), total=rr.sum("amount"))': (
            "count sum avg mean min max aggregate reduce"
        ),
        '.window(rr.tumbling("1 minute"))': "tumbling hopping session sliding",
    },
    "App": {
        "`riverrun run app.py` runs a program": "run start execute main",
        STREAM: "source topic read_stream readStream from_topic kafka dataframe",
        'stream.to("topic")': "sink",
    },
    "rr": {
        'expressions are SQL, as text: .where("amount > 5")': "col lit expr column F",
        "rr.avg(…)": "mean average",
        "rr.distinct(…)": "nunique count_distinct countDistinct n_unique",
        "rr.stddev(…)": "std stdev stddev_samp",
        "rr.variance(…)": "var var_samp",
        "rr.percentile(…)": "quantile percentile_cont",
        "rr.collect(…)": "collect_list array_agg list",
        "rr.distinct_values(…)": "collect_set",
        "rr.max_by(…)": "arg_max argmax",
        "rr.min_by(…)": "arg_min argmin",
        "rr.correlation(…)": "corr",
        'rr.tumbling("1 minute")': "TumblingWindow window tumble",
        'rr.hopping("1 minute", "10 seconds")': "HoppingWindow hop",
        'rr.session("30 minutes")': "SessionWindow",
        "rr.function(…)": "udf pandas_udf",
        "sinks are in rr.sinks, e.g. rr.sinks.postgres(…)": (
            "postgres sqlite delta parquet webhook topic screen"
        ),
        "from riverrun.testing import Driver": "Driver",
    },
}
"""Of each class: what to write instead of which names."""


class NoSuchName(ProgramError, AttributeError):
    """So that `hasattr` gives its answer, and whoever wrote the name a hint."""


def no_such_name(owner: str, name: str, known: Iterable[str]) -> AttributeError:
    """What to raise for an attribute that is not there."""
    if name.startswith("_"):  # Python itself asks for these
        return AttributeError(f"{owner} has no {name!r}")
    names = sorted(each for each in known if not each.startswith("_"))
    close = get_close_matches(name, names, n=1)
    foreign = HINTS.get(owner, {})  # any other: names of its own alone
    said = (hint for hint, words in foreign.items() if name in words.split())
    guess = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(names)}"
    return NoSuchName(f"{owner} has no {name!r}", where=caller(), hint=next(said, guess))
