"""A plan on Spark: the same answer as in this process, in many places; each batch counts once.

Spark plans, schedules, shuffles, checkpoints and repeats; rows travel as parcels (distributed/), of
which Spark sees nothing but a bucket number and bytes. One query of Structured Streaming is

    source  ->  dispatch  ->  by bucket  ->  stage 1  ->  by bucket  ->  stage 2  ...  ->  sink

in which dispatch makes parcels of rows, and a stage hands the parcels of its bucket to the keeper that
has the bucket's state. Why state is not in Spark's state store: docs/design/2026-11-16-spark.md.

    beforehand  what is refused before anything is begun
    inputs      what a query reads
    control     what enters beside the sources: turns of the dial, a heartbeat
    lower       the chain above
    receiving   what a sink is
    sinks       all of them: memory, parquet, delta, and the short ones
    kafka       topics as sources and as sinks (kafka_source, kafka_sink, values, fitting)
    handle      a query that runs
    failure     why it has stopped
"""
