"""The documentation as a site: it builds without a warning, names every page, and fetches nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from conftest import ROOT

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. A warning (a dead link or anchor, a page that the navigation lacks) is an error; with --quiet
    it would not be counted."""
    pytest.importorskip("material", reason="mkdocs-material is not here")
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(target)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
    return target


def pages(site: Path) -> dict[str, str]:
    return {p.relative_to(site).as_posix(): p.read_text(encoding="utf-8") for p in sorted(site.rglob("*.html"))}


def test_every_page_is_there(site: Path) -> None:
    written = {p.relative_to(DOCS).with_suffix(".html").as_posix() for p in DOCS.rglob("*.md")}
    assert written == pages(site).keys() - {"404.html"}


def test_nothing_is_fetched(site: Path) -> None:
    """Scripts, styles, fonts and pictures lie beside the pages, so that they open from the disk and tell nobody."""
    found = pages(site)
    for name, text in found.items():
        loaded = re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=\"?([^\" >]+)", text)
        assert loaded, name
        outside = [url for url in loaded if urlsplit(url).netloc or url.startswith("//")]
        assert not outside, f"{name}: {outside}"
        for url in loaded if name != "404.html" else ():
            file = (site / name).parent / urlsplit(url).path
            assert url.startswith("data:") or file.exists(), f"{name}: {url}"
    styles = [p.read_text(encoding="utf-8") for p in site.rglob("*.css")]
    assert not [url for text in styles for url in re.findall(r"url\(\"?(\w+://[^)]*|//[^)]*)", text)]


def test_links_inside_have_their_files(site: Path) -> None:
    for name, text in pages(site).items():
        for link in re.findall(r"<a\b[^>]*?\bhref=\"?([^\"# >]+)", text) if name != "404.html" else ():
            assert urlsplit(link).netloc or ((site / name).parent / link).exists(), f"{name}: {link}"


def test_there_is_no_edit_link_nor_a_repository(site: Path) -> None:
    assert not [n for n, text in pages(site).items() if "Edit this page" in text or "md-source__repository" in text]


def test_search_works_from_the_disk(site: Path) -> None:
    """The index is a script there, and the worker a hidden frame, as pages from the disk may load no other way."""
    script = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    index = json.loads(script.removeprefix("var __index = "))
    titles = {entry["title"] for entry in index["docs"]}
    assert {"device/tensor-cuda", "Limits and questions"} <= titles
    assert 'src="assets/iframe-worker.js"' in pages(site)["index.html"]


def test_both_palettes_follow_the_reader(site: Path) -> None:
    index = pages(site)["index.html"]
    for scheme in ("(prefers-color-scheme)", "(prefers-color-scheme: light)", "(prefers-color-scheme: dark)"):
        assert f'data-md-color-media="{scheme}"' in index
