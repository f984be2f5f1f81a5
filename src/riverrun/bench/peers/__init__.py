"""The same three programs in other systems, each a file that knows nothing of riverrun.

Each is given a plan: brokers, the topics of input, table and output, the work (filter, count or
join), how many processes or threads it may have, and a folder for its state.
"""
