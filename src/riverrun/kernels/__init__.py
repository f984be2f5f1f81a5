"""Pure columnar code that operators share: lots, pages, routing, state, aggregates, SQL."""
