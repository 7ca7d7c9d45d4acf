"""A Spark session for tests: small, and on loopback."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def session(master: str = "local[2]") -> Any:
    """The session of this process."""
    made = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.streaming.metricsEnabled", "false")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("ERROR")
    return made
