"""Stored queries tested on documents one by one, as simply as can be: what the index must equal.

A query is a tree: (word, columns, text) (phrase, columns, [texts], slop) (prefix, columns, text)
(near, columns, text, distance) (value, column, text) (begins, column, text) (between, column, low,
high) (and, [..]) (or, [..]) (not, tree). Columns are None for all of text.
"""

from __future__ import annotations

import unicodedata
from itertools import combinations

TEXT = ("title", "body")
STEMMED = "body"
STEMS = {"runs": "run", "running": "run", "rivers": "river", "cities": "citi", "city": "citi"}
FOLDED = {"ß": "ss", "ø": "o", "æ": "ae", "ς": "\u03c3", "ϐ": "β", "և": "եւ"}


def unspaced(letter):
    """Chinese, Japanese and Korean, of the letters that tests use."""
    return letter in "天地人日本語かな한국어"


def plain(word):
    """Small letters without accents."""
    parts = unicodedata.normalize("NFD", unicodedata.normalize("NFC", word).lower())
    letters = "".join(each for each in parts if not "\u0300" <= each <= "\u036f")
    return unicodedata.normalize("NFC", "".join(FOLDED.get(each, each) for each in letters))


def form(column, word):
    return STEMS.get(plain(word), plain(word)) if column == STEMMED else plain(word)


def words_of(text):
    """Words in their order; of languages without spaces every letter is one, with the next."""
    text, found, begun = unicodedata.normalize("NFC", text or ""), [], None
    for n, letter in enumerate(text + " "):
        inside = unicodedata.category(letter)[0] in "LNM" and not unspaced(letter)
        if inside and begun is None:
            begun = n
        if not inside and begun is not None:
            found.append(text[begun:n])
            begun = None
        if unspaced(letter):
            follows = n + 1 < len(text) and unspaced(text[n + 1])
            found.append(text[n : n + 2] if follows else letter)
    return found


def distance(one, other):
    if not one or not other:
        return len(one) + len(other)
    least = min(
        distance(one[1:], other) + 1,
        distance(one, other[1:]) + 1,
        distance(one[1:], other[1:]) + (one[0] != other[0]),
    )
    if len(one) > 1 and len(other) > 1 and one[:2] == other[1::-1]:
        least = min(least, distance(one[2:], other[2:]) + 1)
    return least


def near(one, other, most):
    return abs(len(one) - len(other)) <= most and distance(one, other) <= most


def in_row(wanted, have, slop):
    places = range(len(have))
    for chosen in combinations(places, len(wanted)):
        close = chosen[-1] - chosen[0] - (len(wanted) - 1) <= slop
        if close and [have[place] for place in chosen] == wanted:
            return True
    return False


def holds_in(leaf, column, document):
    """Whether a part that looks for words holds in one column."""
    kind, text = leaf[0], document[column]
    words = words_of(text)
    if kind == "prefix":
        return any(plain(each).startswith(plain(leaf[2])) for each in words)
    if kind == "near":
        return any(near(plain(each), plain(leaf[2]), leaf[3]) for each in words)
    given = leaf[2] if kind == "phrase" else [leaf[2]]
    if all(map(unspaced, "".join(given))):
        return "".join(given) in unicodedata.normalize("NFC", text or "")
    slop = leaf[3] if kind == "phrase" else 0
    wanted = [form(column, word) for each in given for word in words_of(each)]
    return in_row(wanted, [form(column, each) for each in words], slop)


def columns_of(leaf):
    return TEXT if leaf[1] is None else (leaf[1],)


def holds(tree, document):
    kind = tree[0]
    if kind == "and":
        return all(holds(each, document) for each in tree[1])
    if kind == "or":
        return any(holds(each, document) for each in tree[1])
    if kind == "not":
        return not holds(tree[1], document)
    if kind == "value":
        return document[tree[1]] is not None and str(document[tree[1]]).lower() == tree[2].lower()
    if kind == "begins":
        return (document[tree[1]] or "\0").startswith(tree[2])
    if kind == "between":
        value = document[tree[1]]
        return value is not None and tree[2] <= value <= tree[3]
    return any(holds_in(tree, column, document) for column in columns_of(tree))


def leaves(tree, negated=False):
    """The parts that are not negated."""
    if tree[0] in ("and", "or"):
        return [leaf for each in tree[1] for leaf in leaves(each, negated)]
    if tree[0] == "not":
        return leaves(tree[1], not negated)
    return [] if negated else [tree]


def text_of(tree):
    """The query as people write it."""
    kind = tree[0]
    if kind in ("and", "or"):
        return f"({(' ' if kind == 'and' else ' OR ').join(map(text_of, tree[1]))})"
    if kind == "not":
        return f"NOT {text_of(tree[1])}"
    if kind == "between":
        return f"{tree[1]}:[{tree[2]} TO {tree[3]}]"
    before = f"{tree[1]}:" if tree[1] else ""
    if kind == "phrase":
        return f'{before}"{" ".join(tree[2])}"' + (f"~{tree[3]}" if tree[3] else "")
    if kind == "near":
        return f"{before}{tree[2]}~{tree[3]}"
    return f"{before}{tree[2]}{'*' if kind in ('prefix', 'begins') else ''}"
