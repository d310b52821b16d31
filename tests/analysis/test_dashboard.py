# SPDX-License-Identifier: GPL-2.0-or-later
"""The site of a simulated history, opened in a browser without a network; what it is made of, and rebuilt."""

from __future__ import annotations

import functools
import html
import http.server
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import history
import numpy as np
import pytest

from rewake import runs
from rewake.analysis import charts, dashboard, trend
from rewake.analysis.measures import MEASURES
from rewake.forms import Store

for _module in ("altair", "vl_convert", "jinja2", "otava.analysis"):
    pytest.importorskip(_module)

pytestmark = pytest.mark.usefixtures("own_cache")

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[2J\u202e{{7*7}}"


def build(store: Store, out: Path, title: str = "nightly") -> dashboard.Written:
    con = store.connect()
    try:
        return dashboard.build(con, trend.watch(trend.read(con), 2.0), out, title, runs.vega())
    finally:
        con.close()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Path]:
    """Sixty nights, a regression at night 40."""
    where = tmp_path_factory.mktemp("dashboard")
    store = history.nightly(where / "store")
    build(store, where / "site")
    return store, where / "site"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.exists():
        pytest.skip("no Chromium")
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield running
        running.close()


class Page:
    """A page of its own that hears every error, every warning and every request."""

    def __init__(self, browser: Any, address: str, width: int = 1280, offline: bool = True) -> None:
        self.said: list[str] = []
        self.asked: list[str] = []
        context = browser.new_context(viewport={"width": width, "height": 900}, offline=offline)
        self.page = context.new_page()
        self.page.on("console", lambda m: self.said.append(m.text))
        self.page.on("pageerror", lambda e: self.said.append(str(e)))
        self.page.on("request", lambda r: self.asked.append(r.url))
        self.page.goto(address)
        self.page.wait_for_selector(".chart[data-drawn] svg")

    def shown(self) -> int:
        found: int = self.page.locator(".card:visible").count()
        return found


def test_marks_drill_down_and_filters_offline(browser: Any, built: tuple[Store, Path]) -> None:
    opened = Page(browser, (built[1] / "index.html").as_uri())
    page = opened.page
    first = page.locator(".card").first
    assert "p99 latency, lo end" in first.inner_text() and "still failing" in first.inner_text()
    # Marks: a point for every run, one upright line for the change, two bands and two levels.
    assert first.locator("svg .mark-symbol path").count() == 60
    assert first.locator("svg .mark-rect path").count() == 2
    assert first.locator("svg .mark-rule.role-mark line").count() == 3
    assert page.locator(".card.worse").count() == 2 and page.locator(".card").count() == 41
    # Only what is near the window is drawn.
    assert 0 < page.locator(".chart[data-drawn]").count() < 41

    page.check("[name=changed]")
    assert opened.shown() == 2 and page.locator("#shown").inner_text() == "2 of 41 shown"
    page.uncheck("[name=changed]")
    page.select_option("[name=policy]", "recorded")
    assert opened.shown() == 11 and "policy=recorded" in page.url
    page.select_option("[name=metric]", "stacked")
    assert opened.shown() == 1
    page.select_option("[name=machine]", history.MACHINE)
    assert opened.shown() == 1
    page.check("[name=changed]")
    assert opened.shown() == 0 and page.locator("#nothing").is_visible()
    page.click("button[type=reset]")
    page.wait_for_function("document.getElementById('shown').value.startsWith('41')")

    # Drill-down: from the change by its link, from a run by its point.
    page.locator(".card.worse a").first.click()
    page.wait_for_selector("#latency[data-drawn] svg")
    assert page.locator("h1").inner_text().startswith("night-40")
    assert page.locator("tbody tr").count() == 3
    assert page.locator("svg .mark-line path").count() == 5
    page.go_back()
    page.wait_for_selector(".chart[data-drawn] svg")
    page.locator(".card").first.locator("svg .mark-symbol path").nth(3).click()
    page.wait_for_selector("#latency[data-drawn] svg")
    assert page.locator("h1").inner_text().startswith("night-03")
    assert opened.said == []
    assert all(url.startswith("file:") for url in opened.asked)


def test_filters_stand_in_the_address(browser: Any, built: tuple[Store, Path]) -> None:
    opened = Page(browser, (built[1] / "index.html").as_uri() + "#policy=linux-6.1&changed=on", width=400)
    assert opened.shown() == 2
    assert opened.page.locator("[name=policy]").input_value() == "linux-6.1"
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 400
    opened.page.evaluate("location.hash = '#metric=p99'")  # another address, opened in the same tab
    opened.page.wait_for_function("document.getElementById('shown').value.startsWith('5 of')")
    assert opened.page.evaluate("location.hash") == "#metric=p99"
    assert opened.said == []


def test_from_a_web_server_below_a_path(browser: Any, built: tuple[Store, Path]) -> None:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(built[1].parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        root = f"http://127.0.0.1:{server.server_port}/"
        opened = Page(browser, f"{root}site/index.html", offline=False)
        opened.page.locator(".card a").first.click()
        opened.page.wait_for_selector("#latency[data-drawn] svg")
        assert [s for s in opened.said if "favicon" not in s and "404" not in s] == []
        assert all(url.startswith(root) for url in opened.asked)
        server.shutdown()


def test_rebuilt_nothing_is_written_again(built: tuple[Store, Path]) -> None:
    store, site = built
    before = {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in site.rglob("*") if p.is_file()}
    done = build(store, site)
    assert (done.written, done.unchanged) == (0, len(before))
    assert {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in site.rglob("*") if p.is_file()} == before


def test_a_new_run_writes_its_page_and_the_index(tmp_path: Path) -> None:
    store = history.nightly(tmp_path / "store", runs=3, at=None)
    build(store, tmp_path / "site")
    name, _ = store.add(history.rows(3, history.figures(np.random.default_rng(9), 0.02)))
    done = build(store, tmp_path / "site")
    assert (done.written, done.unchanged) == (2, 8)
    assert (tmp_path / "site" / "runs" / f"{Path(name).stem}.html").is_file()
    index = (tmp_path / "site" / "index.html").read_text()
    assert "4 runs, not judged" in index and "no change" not in index and "Nothing judged yet" in index


def test_runs_of_which_the_figure_is_unbounded_are_not_told_as_missing() -> None:
    """Ten runs, of three of which hi is bounded: not "fewer than 8 runs"."""
    points = tuple(
        trend.Point(
            f"2026-01-{i + 1:02d}T00:00:00Z", None, None, f"run {i}", f"suite=s/{i}.parquet", 1e6 if i < 3 else None
        )
        for i in range(10)
    )
    (found,) = trend.watch([trend.Series("s", "m", "linux-6.1", MEASURES["p99"], "hi", points)], 2.0).series
    assert dashboard._card(found)["unchanged"] == "3 of 10 runs bounded, not judged"


def test_the_page_of_a_run_that_was_taken_out_goes(tmp_path: Path) -> None:
    store = history.nightly(tmp_path / "store", runs=3, at=None)
    build(store, tmp_path / "site")
    (tmp_path / "site" / "runs" / "notes.html").write_text("of somebody else")
    gone = store.shards()[0]
    (tmp_path / "store" / gone).unlink()
    build(store, tmp_path / "site")
    left = {p.stem for p in (tmp_path / "site" / "runs").iterdir()}
    assert left == {"notes", *(Path(s).stem for s in store.shards())} and Path(gone).stem not in left


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.scripts: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.found += [v for k in ("href", "src") if (v := given.get(k))]
        if tag == "script":
            self.scripts.append(given.get("src") or given.get("type"))
        assert not any(k.startswith("on") or k == "style" for k in given)


def test_every_link_leads_somewhere_inside(built: tuple[Store, Path]) -> None:
    pages = list(built[1].rglob("*.html"))
    assert len(pages) == 61
    for page in pages:
        links = Links()
        links.feed(page.read_text(encoding="utf-8"))
        for link in links.found:
            assert (page.parent / link).resolve().is_relative_to(built[1]) and (page.parent / link).is_file(), link
        assert html.escape(dashboard.CSP) in page.read_text(encoding="utf-8").replace("&#39;", "&#x27;")
        assert set(links.scripts) <= {"application/json", *links.found}


def test_hostile_names_are_shown_and_do_nothing(browser: Any, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    given = {"run": HOSTILE, "suite": HOSTILE, "revision": HOSTILE, "machine": HOSTILE, "kernel": HOSTILE}
    found = history.figures(np.random.default_rng(0), 0.02)
    found[HOSTILE] = found.pop("linux-6.1")
    report = json.dumps(history.REPORT | {"fidelity": None, "refusal": HOSTILE})
    store.add([r | ({"report": report} if r["metric"] == "report" else {}) for r in history.rows(1, found, **given)])
    build(store, tmp_path / "site", HOSTILE)
    for page in (tmp_path / "site").rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert "<img" not in text and "\x1b" not in text and "\u202e" not in text and "{{7*7}}" in text
        assert len(re.findall("</script>", text)) == 5
    opened = Page(browser, (tmp_path / "site" / "index.html").as_uri())
    assert "<img" in opened.page.locator("h1").inner_text()
    opened.page.locator(".card a").first.click()
    opened.page.wait_for_selector("#latency[data-drawn] svg")
    assert opened.said == []


def test_decisions_without_an_estimate_are_in_both_curves(tmp_path: Path) -> None:
    """A half of 2,400 decisions is [0, unbounded) and in no bucket: lo begins at a half, hi ends there."""
    store = Store(tmp_path / "store")
    report = history.REPORT | {"policies": [{"policy": "linux-6.1", "n": 2400, "no_estimate": 1200}]}
    rows = history.rows(1, history.figures(np.random.default_rng(0), 0.02))
    store.add([r | ({"report": json.dumps(report)} if r["metric"] == "report" else {}) for r in rows])
    build(store, tmp_path / "site")
    (page,) = (tmp_path / "site" / "runs").glob("*.html")
    curve = json.loads(page.read_text().split('id="data">')[1].split("</script>")[0])
    ends = {
        side: [p["share"] for p in curve if (p["policy"], p["side"]) == ("linux-6.1", side)] for side in ("lo", "hi")
    }
    assert max(ends["lo"]) < 0.5 and max(ends["hi"]) > 0.9
    assert min(ends["lo"]) < 0.05 and min(ends["hi"]) == pytest.approx(0.5, abs=0.05)


def test_axes_have_no_exponents() -> None:
    """p99 of 12 ms is 12,000 µs, as the text below the chart has it."""
    import vl_convert

    points = [{"made": f"2026-11-{d:02}T00:00:00Z", "value": 12_000 + 300 * d} for d in range(1, 15)]
    curve = [{"policy": "recorded", "side": "lo", "us": 10.0**k, "share": 10.0**-k} for k in range(8)]
    named = {"points": points, "levels": [], "worse": [], "better": [], "curve": curve}
    for spec, label in ((charts.history(), "14,000"), (charts.latency(), "1,000,000")):
        shown = vl_convert.vegalite_to_svg(spec | {"datasets": named, "width": 400})
        labels = re.findall(r"<text[^>]*>([^<]*)</text>", shown)
        assert label in labels and not [text for text in labels if re.search(r"\de[+\u2212]", text)]


@pytest.mark.parametrize(
    ("days", "label"),
    [
        (0.0005, "02:00:30"), (0.008, None), (0.3, "01 Nov 06:00"), (2, "02 Nov 12:00"), (3.9, None), (4.1, None),
        (30, "20 Nov"), (299, None), (301, None), (700, "Jan 2023"), (3000, "Jan 2028"),
    ],
)  # fmt: skip
def test_no_two_ticks_of_a_history_say_the_same(days: float, label: str | None) -> None:
    import vl_convert

    begin = datetime(2022, 11, 1, 2, tzinfo=UTC)
    made = [(begin + timedelta(days=days * k / 20)).isoformat() for k in range(21)]
    named = {"points": [{"made": m, "value": -1.0} for m in made], "levels": [], "worse": [], "better": []}
    shown = vl_convert.vegalite_to_svg(charts.history() | {"datasets": named, "width": 400})
    labels = [text for text in re.findall(r"<text[^>]*>([^<]*)</text>", shown) if re.match(r"\d\d[ :]|[A-Z]", text)]
    assert len(labels) >= 3 and len(set(labels)) == len(labels) and label in (None, *labels)


def test_a_history_has_its_days_in_utc_wherever_it_is_read() -> None:
    """A run of 2026-11-01T02:00Z is of that day in New York too, as in the text below the chart."""
    import vl_convert

    spec = charts.history()
    point = {"made": "2026-11-01T02:00:00Z", "value": 1.0, "run": "a", "revision": "b", "href": "c"}
    named = {"points": [point], "levels": [], "worse": [], "better": []}
    code = "import json, sys, vl_convert; print(vl_convert.vegalite_to_svg(json.load(sys.stdin)))"
    shown = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(spec | {"datasets": named, "width": 400}), text=True, check=True,
        capture_output=True, env=os.environ | {"TZ": "America/New_York"},
    ).stdout  # fmt: skip
    assert "made: 01 Nov" in shown and "Oct" not in shown
    drawn = json.dumps(vl_convert.vegalite_to_vega(spec | {"datasets": named, "width": 400}))
    assert "utcFormat" in drawn and 'timeFormat(datum[\\"made' not in drawn, "tooltips, and what is read out"


def test_an_unbounded_history_says_so(browser: Any, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    for day in range(3):
        found = history.figures(np.random.default_rng(day), 0.02)
        found["linux-6.1"]["p99_hi_ns"] = None
        store.add(history.rows(day, found))
    build(store, tmp_path / "site")
    opened = Page(browser, (tmp_path / "site" / "index.html").as_uri() + "#metric=p99&policy=linux-6.1")
    opened.page.wait_for_function("document.body.innerText.includes('unbounded in every run')")
    assert opened.said == []
