"""The jars of Kafka: Spark's connector, and a broker for tests. They come from Maven Central, once.

Ivy, which is part of Spark, fetches them into a cache of the user's. The connector has to fit Spark; the
newest that is published is of an earlier minor version than Spark itself, and its helper for delegation
tokens of a still earlier one. Both run with this Spark, which the tests show.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from pathlib import Path
from typing import Literal

import pyspark

KAFKA = "3.9.2"
"""the version of the client that the connector was built with, for client and broker"""

_MODULES = f"""\
<ivy-module version="2.0">
  <info organisation="slackwater" module="kafka"/>
  <configurations><conf name="connector"/><conf name="broker"/></configurations>
  <dependencies>
    <dependency org="org.apache.spark" name="spark-sql-kafka-0-10_2.13" rev="4.2.0"
                conf="connector->master"/>
    <dependency org="org.apache.spark" name="spark-token-provider-kafka-0-10_2.13" rev="4.0.0"
                conf="connector->master"/>
    <dependency org="org.apache.commons" name="commons-pool2" rev="2.13.1" conf="connector->master"/>
    <dependency org="org.apache.kafka" name="kafka-clients" rev="{KAFKA}" conf="connector->master"/>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{KAFKA}" conf="broker->default"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="1.7.36" conf="broker->default"/>
  </dependencies>
</ivy-module>
"""


def java() -> str:
    """The java that Spark starts."""
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def jars(of: Literal["connector", "broker"]) -> list[str]:
    """The paths of the jars; they are fetched if they are not there."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    name = hashlib.sha256(_MODULES.encode()).hexdigest()[:12]
    cache = Path(base) / "slackwater" / "kafka"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        # the tests of another process may want them, too
        fcntl.flock(lock, fcntl.LOCK_EX)
        file = cache / f"{of}-{name}.path"
        return _listed(file) or _fetched(cache, of, file)


def _listed(file: Path) -> list[str]:
    paths = file.read_text().strip().split(os.pathsep) if file.exists() else []
    return paths if all(Path(path).exists() for path in paths) else []


def _fetched(cache: Path, of: str, file: Path) -> list[str]:
    modules = cache / "ivy.xml"
    modules.write_text(_MODULES)
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    command = [java(), "-jar", str(ivy), "-cache", str(cache / "ivy"), "-ivy", str(modules)]
    command += ["-confs", of, "-cachepath", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=540)  # noqa: S603
    found = _listed(file)
    assert done.returncode == 0, f"the jars cannot be fetched:\n{done.stdout[-3000:]}"
    assert found, f"the jars cannot be fetched:\n{done.stdout[-3000:]}"
    return found
