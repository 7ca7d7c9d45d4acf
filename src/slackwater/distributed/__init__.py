"""A plan in many places at once, without saying what carries rows from one place to another.

A plan is cut into stages (plan/exchanges.py); a stage runs in a fixed number of buckets, each of which
sees the rows of its share and nothing else. All that passes between them is parcels:

    parcels     rows of one origin for one bucket, with what that origin promises
    dispatch    what is read from a source, as parcels for every bucket
    combining   what begins and ends together, added up before it is sent
    ctis        the rows of an origin that keep what it has promised among them
    repeats     rows that a source tells twice
    progress    what a bucket may promise, given what its origins do
    mending     partitions of a disordered source, each brought into order before anything is spread
    bucket      one share of one stage at work: parcels of a batch in, parcels out
    program     all stages of a plan, and what a worker has to know of them
    files       places by name, and files that are whole
    store       what makes the state of buckets durable
    host        buckets that live in one process, brought to the batch that is asked for
    keeper      such a process, for whoever runs on the same machine
    lines       messages to keepers and back
    quarters    where keepers live, and how they come and go
    weight      how much memory a state takes
    latest      of every key the row that started last, as a query
    rehearsal   a whole plan in buckets, in this process: the meaning of what Spark runs

Nothing here imports Spark.
"""
