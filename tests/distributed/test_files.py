"""Places by any of their names, and files that are whole."""

from __future__ import annotations

from pathlib import Path

import pytest

import slackwater as sw
from slackwater.distributed.files import Directory


def test_one_place_has_many_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "a b%20c"
    place.mkdir()
    monkeypatch.chdir(tmp_path)
    Directory(str(place)).write("sub/x", b"1")
    for name in (
        f"file:{place}",
        f"file://{place}",
        f"file://localhost{place}/",
        "a b%20c",
        "./a b%20c/",
    ):
        assert Directory(name).read("sub/x") == b"1"
        assert list(Directory(name).listed("sub")) == ["x"]


def test_what_is_no_place_is_refused() -> None:
    for place, fact in (("nowhere://x/y", "no place"), ("file://other/x", "another machine")):
        with pytest.raises(sw.PlanError, match=fact):
            Directory(place)


def test_where_a_file_is_can_be_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    Directory(str(tmp_path)).require()
    Directory(str(tmp_path / "not" / "yet")).require()
    for place, detail in (("file", "it is a file"), ("file/below/it", f"{tmp_path}/file is a file")):
        with pytest.raises(sw.PlanError, match="cannot be a directory") as refused:
            Directory(f"{tmp_path}/{place}").require()
        assert refused.value.detail == detail
        assert refused.value.hint


def test_a_file_is_there_when_it_is_whole(tmp_path: Path) -> None:
    directory = Directory(str(tmp_path))
    seen: list[list[str]] = []

    def write(file: object) -> None:
        seen.append(list(directory.listed()))
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        directory.write_with("x", write)
    assert seen == [[]]
    assert not directory.has("x")
    directory.write("x", b"1")
    directory.write("x", b"2")
    assert directory.read("x") == b"2"
    directory.delete("x")
    directory.delete("x")
    assert list(directory.listed()) == []
