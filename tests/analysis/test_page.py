# SPDX-License-Identifier: GPL-2.0-or-later
"""The HTML page, in a real browser without a network, with names that try to get out of every place they stand in."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import bigrun
import duckdb
import pytest
from command import told

from rewake.analysis import sql
from rewake.analysis.html import charts
from rewake.analysis.html.colours import looks
from rewake.analysis.html.simulated import Figures, simulated_page
from rewake.analysis.simulated import RANGES
from rewake.analysis.text import _visible
from rewake.cli import main
from rewake.forms import Run
from rewake.runs import simulation_of

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --disable-background-networking --disable-component-update "
    "--disable-sync"
).split()
HOSTILE = (
    "</script><script>window.owned = 1</script>",
    '"><img src=x onerror="window.owned = 2">',
    "{{ 7 * 7 }}'onfocus=window.owned=3 autofocus x='",
)
POLICIES = ("recorded", "prev", "linux-6.1", "idle-thread-scan", *HOSTILE)


def change(path: Path, **values: Any) -> None:
    file = path / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


@pytest.fixture(scope="module")
def made(own_cache: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    """A run with hostile names everywhere, and its page."""
    folder = tmp_path_factory.mktemp("page")
    recording = bigrun.recording(folder / "r.rewake", 4000)
    change(recording.path, kernel="6.1 " + HOSTILE[1], notes=[HOSTILE[0]])
    run = bigrun.run(folder / "p.run", bigrun.Recording(recording.path), POLICIES)
    policies = [p | {"branches": [*HOSTILE, "\x1b[2J", "=cmd()", "SMT"]} for p in run.manifest["policies"]]
    change(run.path, name=HOSTILE[0], policies=policies, notes=[HOSTILE[1]], hardirq=HOSTILE[2])
    assert main(["report", str(run.path), "--html", str(folder / "p.html")]) == 0
    return Run(run.path), folder / "p.html"


class Browser:
    """The page open in a window of some size; `said`: what reached the console, `asked`: requests."""

    def __init__(self, context: Any, file: Path) -> None:
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page = context.new_page()
        self.page.set_default_timeout(60_000)
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("html[data-drawn]", state="attached")

    def marks(self, chart: str, group: str = "role-mark") -> int:
        """Marks in the groups of a chart."""
        count = "([id, g]) => [...document.getElementById(id).querySelectorAll(`g.${g}`)].reduce((n, e) => n + e.childElementCount, 0)"  # noqa: E501
        return int(self.page.evaluate(count, [chart, group]))

    def js(self, text: str) -> Any:
        return self.page.evaluate(text)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no chromium")
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def shown(chromium: Any, made: tuple[Run, Path]) -> Browser:
    size = {"width": 1280, "height": 900}
    return Browser(chromium.new_context(offline=True, viewport=size, color_scheme="light"), made[1])


@pytest.fixture(scope="module")
def answers(made: tuple[Run, Path]) -> dict[str, list[dict[str, Any]]]:
    con = made[0].connect()
    sql.prepare(con, {str(p["name"]): list(p["branches"]) for p in made[0].manifest["policies"]})
    names = ("placement/flow", "latency/curve", "time/disagreement", "fidelity/branches", "moves/between_cpus",
             "moves/between_llcs")  # fmt: skip
    return {name: sql.run(con, name).dicts() for name in names}


def test_it_opens_without_a_word_and_asks_for_nothing(shown: Browser, made: tuple[Run, Path]) -> None:
    assert shown.said == []
    assert shown.asked == [made[1].as_uri()]
    assert int(shown.js("document.documentElement.dataset.drawn")) == shown.js(
        "document.querySelectorAll('.chart').length"
    )
    assert shown.js("document.querySelectorAll('.chart:not(:has(svg))').length") == 0


def test_every_chart_has_the_marks_of_its_query(shown: Browser, answers: dict[str, list[dict[str, Any]]]) -> None:
    others = [p for p in POLICIES if p != "recorded"]
    assert shown.marks("flow") == len(answers["placement/flow"])
    for i, policy in enumerate(others):
        points = [r for r in answers["latency/curve"] if r["policy"] == policy]
        assert points
        assert shown.marks(f"curve-{i}", "reach_marks") == len(points)
        assert [shown.marks(f"curve-{i}", f"{m}_marks") for m in ("band", "lo", "hi", "recorded")] == [1, 1, 1, 1]
    for chart in ("disagreed", "exposed"):
        assert shown.marks(chart) == len(others)
    assert shown.marks("exposure-bars", "bars_marks") == shown.marks("collision-bars", "bars_marks") == len(others)
    assert shown.marks("exposure-bars", "limit_marks") == 1
    told = [r for r in answers["fidelity/branches"] if r["policy"] == "linux-6.1"]
    assert shown.marks("branches") == sum(bool(r[name]) for r in told for name, _ in charts.KERNEL_CHOSE)


def test_the_longest_bounded_latency_stays_below_the_top() -> None:
    """The caption says that what runs into the top is unbounded; a bound of 12 ms that is the largest is none of it."""
    vl_convert = pytest.importorskip("vl_convert")

    def band(hi: int | None) -> float:
        """How far from the top the band ends, in pixels."""
        rows = [{"quantile": q, "lo_ns": 8_000, "hi_ns": hi} for q in (0.5, 0.9)]
        spec = charts.curve(rows, [], looks(["prev"], None)["prev"], (8_000, 12_000_000))
        svg = vl_convert.vegalite_to_svg(spec | {"width": 400})
        area = re.search(r'<g class="mark-area[^"]* band_marks"[^>]*><path [^>]*d="([^"]*)"', svg)
        assert area is not None
        return min(float(y) for y in re.findall(r"[ML][\d.]+,([\d.]+)", area[1]))

    assert band(None) == 0 and band(12_000_000) > 5


def test_the_heatmaps_show_one_policy_or_its_difference(
    shown: Browser, answers: dict[str, list[dict[str, Any]]]
) -> None:
    def cells(query: str, policy: str, field: str) -> int:
        return sum(bool(r[field]) for r in answers[query] if r["policy"] == policy)

    for policy in ("linux-6.1", "prev", HOSTILE[1]):
        for view, field in (("n", "moves"), ("difference", "difference")):
            shown.page.select_option("#policy", policy)
            shown.page.click(f"[data-view={view}]")
            for chart, query in (("heat-cpu", "moves/between_cpus"), ("heat-llc", "moves/between_llcs")):
                want = cells(query, policy, field)
                shown.page.wait_for_function(
                    "([id, n]) => document.querySelectorAll(`#${id} .cells_marks path`).length === n", arg=[chart, want]
                )
    assert shown.page.locator(".heat-of").first.inner_text() == f"{HOSTILE[1]} minus recorded"
    assert shown.marks("heat-cpu", "columns_marks") == 2, "a line between two LLCs, and the edge"
    assert shown.said == []


def test_the_legend_switches_a_policy_off_everywhere(shown: Browser) -> None:
    button = shown.page.locator("[data-policy='prev']")
    faded = 'document.querySelectorAll(\'#flow path[opacity="0.08"], #disagreed path[opacity="0.08"]\').length'
    assert shown.js(faded) == 0
    button.click()
    shown.page.wait_for_function(f"{faded} === 2")  # one bar of prev, one line
    assert button.get_attribute("aria-pressed") == "false"
    assert not shown.page.locator("[data-panel='prev']").is_visible()
    shown.page.click("#all")
    shown.page.wait_for_function(f"{faded} === 0")
    assert button.get_attribute("aria-pressed") == "true"
    assert shown.page.locator("[data-panel='prev']").is_visible()
    assert not shown.page.locator("#all").is_visible()


def test_themes_and_paper(shown: Browser) -> None:
    def paper() -> str:
        return str(shown.js("getComputedStyle(document.body).backgroundColor"))

    def line() -> str:
        return str(
            shown.js("getComputedStyle(document.querySelector('#disagreed path[stroke=\"var(--p-1)\"]')).stroke")
        )

    light = paper(), line()
    assert light == ("rgb(255, 255, 255)", "rgb(0, 114, 178)")
    shown.page.click("[data-theme=dark]")
    assert shown.page.locator("[data-theme=dark]").get_attribute("aria-pressed") == "true"
    dark = paper(), line()
    assert dark[0] != light[0] and dark[1] != light[1]
    shown.page.emulate_media(media="print")
    assert (paper(), line()) == light, "paper is white whatever the screen was"
    shown.page.emulate_media(media="screen", color_scheme="dark")
    shown.page.click("[data-theme=light]")
    assert (paper(), line()) == light
    shown.page.click("[data-theme=auto]")
    assert (paper(), line()) == dark
    shown.page.emulate_media(color_scheme="light")
    assert (paper(), line()) == light


def test_the_keyboard_reaches_everything(shown: Browser) -> None:
    reachable = "button, select, summary, .scroll, .skip"
    controls = shown.js(f"[...document.querySelectorAll('{reachable}')].filter(e => e.checkVisibility()).length")
    shown.page.keyboard.press("Tab")  # from here on the keyboard leads, and focus is shown
    shown.js("document.querySelector('.skip').focus()")
    for at in range(controls):
        style = shown.js("getComputedStyle(document.activeElement).outlineStyle")
        assert style == "solid", (at, shown.js("document.activeElement.outerHTML.slice(0, 80)"))
        shown.page.keyboard.press("Tab")
    assert shown.js("document.activeElement === document.body"), "no control was left out"
    shown.page.locator("[data-theme=dark]").focus()
    shown.page.keyboard.press("Enter")
    assert shown.js("document.documentElement.className") == "dark"
    shown.page.click("[data-theme=auto]")


def test_it_fits_a_telephone(chromium: Any, made: tuple[Run, Path]) -> None:
    small = Browser(chromium.new_context(offline=True, viewport={"width": 400, "height": 800}), made[1])
    assert small.js("document.documentElement.scrollWidth") == 400
    assert small.js("[...document.querySelectorAll('.chart svg')].every(e => e.getBoundingClientRect().width <= 400)")
    assert small.said == []


def test_names_stay_names(shown: Browser, made: tuple[Run, Path]) -> None:
    assert shown.js("window.owned") is None
    assert shown.js("document.scripts.length") == 3
    assert shown.js("document.querySelectorAll('img, [onerror], [onfocus], [autofocus], iframe').length") == 0
    assert shown.page.title() == f"{HOSTILE[0]} · rewake"
    assert shown.page.locator("h1").inner_text() == HOSTILE[0]
    for name in HOSTILE:
        assert shown.page.locator(".legend .name").filter(has_text=name).count() == 1
    mark = "#exposure-bars .bars_marks path"
    for i in range(len(POLICIES) - 1):
        shown.page.locator(mark).nth(i).hover()
        shown.page.wait_for_selector("#vg-tooltip-element.visible")
        assert shown.js("document.querySelector('#vg-tooltip-element').querySelectorAll('script, img').length") == 0
    text = made[1].read_text()
    assert "\x1b" not in text
    assert "49" not in re.sub(r"<script.*", "", text, flags=re.S).partition("<h1>")[2][:200], "no template in a name"
    assert _visible("\x1b[2J") in text


def test_the_file_is_whole_and_the_same_again(made: tuple[Run, Path], tmp_path: Path) -> None:
    text = made[1].read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy
    hashed = "'sha256-[A-Za-z0-9+/]{43}='"
    assert re.fullmatch(
        f"default-src 'none'; script-src {hashed} {hashed}; style-src {hashed}; base-uri 'none'; form-action 'none'",
        html.unescape(policy[1]),
    )
    assert not re.search(r'(src|href)="(?!#)', text.partition("<script")[0])
    assert main(["report", str(made[0].path), "--html", str(tmp_path / "again.html")]) == 0
    assert (tmp_path / "again.html").read_bytes() == made[1].read_bytes()
    assert list(tmp_path.iterdir()) == [tmp_path / "again.html"]


def sections(page: Path) -> set[str]:
    return set(re.findall(r'<section id="([a-z]+)"', page.read_text()))


def written(folder: Path, **manifest: Any) -> Path:
    change(folder / "p.run", **manifest)
    assert main(["report", str(folder / "p.run"), "--html", str(folder / "p.html")]) == 0
    return folder / "p.html"


def rows(page: Path) -> dict[str, Any]:
    found = re.search(r'id="data">(.*?)</script>', page.read_text(), re.S)
    assert found
    return json.loads(found[1])


def test_large_machines_fold(own_cache: None, tmp_path: Path) -> None:
    recording = bigrun.recording(tmp_path / "r.rewake", 2000, cpus=256, per_llc=8, per_node=64)
    policies = [*bigrun.POLICIES, *(f"x:a={i}" for i in range(53))]
    bigrun.run(tmp_path / "p.run", recording, policies)
    data = rows(written(tmp_path))
    assert sum(name.startswith("curve-") for name in data["charts"]) == 12
    assert "47 more policies" in (tmp_path / "p.html").read_text()
    assert len({name.partition("-")[0] for name in data["charts"]}) == 8, "every kind of chart, the folded heatmaps too"
    assert [h["id"] for h in data["heats"]] == ["heat-llc", "heat-node"]
    assert all(len(c) <= 5000 for h in data["heats"] for c in h["cells"].values())
    assert all(len(spec["data"]["values"]) <= 5000 for spec in data["charts"].values())


def test_without_a_column_and_without_topology(own_cache: None, tmp_path: Path) -> None:
    recording = bigrun.recording(tmp_path / "r.rewake", 2000)
    bigrun.run(tmp_path / "p.run", recording, ["prev"])
    page = written(tmp_path, auto=None, refusals={"auto": "no column for kernel 2.6"})
    assert sections(page) >= {"trust", "reading", "results", "placement", "latency", "moves", "time", "machine"}
    assert "fidelity" not in sections(page)
    assert "no column for kernel 2.6" in page.read_text()
    (recording.path / "cpu.parquet").unlink()
    change(recording.path, rows=recording.manifest["rows"] | {"cpu": 0})
    assert "no topology" in written(tmp_path).read_text()


DEMO = Path(__file__).parents[2] / "fixtures/demo-split-llc-schbench/trace.dat"


@pytest.fixture(scope="module")
def simulated(own_cache: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    """A real simulation, of which one policy and the recording get hostile names, and its page."""
    folder = tmp_path_factory.mktemp("simulated")
    path = folder / "s.run"
    assert main(["simulate", str(DEMO), "--policy", "prev", "--policy", "idle-thread-scan", "-o", str(path)]) == 0
    change(path, name=HOSTILE[0])
    con = duckdb.connect()
    con.execute(f"CREATE TABLE arm AS FROM '{path / 'arm.parquet'}'")
    con.execute("UPDATE arm SET policy = ? WHERE policy = 'prev'", [HOSTILE[1]])
    con.execute(f"COPY arm TO '{path / 'arm.parquet'}' (FORMAT parquet)")
    assert main(["report", str(path), "--html", str(folder / "s.html")]) == 0
    return Run(path), folder / "s.html"


def test_the_page_of_a_simulation(chromium: Any, simulated: tuple[Run, Path]) -> None:
    run, file = simulated
    shown = Browser(chromium.new_context(offline=True, viewport={"width": 1280, "height": 900}), file)
    assert shown.said == []
    assert shown.asked == [file.as_uri()]
    assert shown.js("document.querySelectorAll('.chart').length") == int(
        shown.js("document.documentElement.dataset.drawn")
    )
    assert shown.js("document.querySelectorAll('.chart:not(:has(svg))').length") == 0
    con = run.connect()
    sql.prepare(con)
    windows = [row for row in sql.run(con, "simulate/windows").dicts() if row["kind"] in ("factual", "policy")]
    assert shown.marks("windows-cycles", "strokes_marks") == len(windows) > 3
    moves = [row for row in sql.run(con, "simulate/migrations").dicts() if row["policy"] not in ("pinned", "fifo")]
    assert shown.marks("causes") == sum(bool(row[f"{name}_per_s"]) for row in moves for name, _, _ in charts.CAUSES)
    titles = shown.page.locator("h2").all_inner_texts()
    assert titles[0] == "Does the model reproduce what was recorded?"
    unqualified = [title for title in titles if "modelled" not in title]
    assert unqualified == [titles[0], "How to read it", "What was assumed", "The machine"]
    assert shown.page.locator(".results thead th").nth(1).inner_text().split() == ["linux-6.1", "factual"]
    shown.page.locator("[data-policy='idle-thread-scan']").click()
    shown.page.wait_for_function("document.querySelectorAll('#cycles path[opacity=\"0.08\"]').length === 1")
    assert shown.js("window.owned") is None
    assert shown.page.locator("h1").inner_text() == HOSTILE[0]
    assert shown.page.locator(".legend .name").filter(has_text=HOSTILE[1]).count() == 1
    small = Browser(chromium.new_context(offline=True, viewport={"width": 400, "height": 800}), file)
    assert small.js("document.documentElement.scrollWidth") == 400


def test_a_simulation_says_where_it_does_not_hold(
    simulated: tuple[Run, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run, file = simulated
    assert sections(file) == {"trust", "reading", "results", "latency", "spread", "queues", "moves", "work", "idle",
                              "settings", "machine"}  # fmt: skip
    data = json.loads(told(capsys, "report", run.path, "--format", "json"))
    missed = [c["policy"] for c in data["checks"] if c["kind"] != "null" and not c["holds"]]
    tiles = re.findall(r'<div class="tile bad"><dt>([^<]*)</dt><dd class="big">([^<]*)<', file.read_text())
    names = {"pinned": "V3 pinned", "linux-6.1": "V4 factual"}
    assert tiles == [(names[policy], "does not hold") for policy in missed]
    assert main(["simulate", str(DEMO), "--pin", "-o", str(tmp_path / "pin.run")]) == 0
    assert main(["report", str(tmp_path / "pin.run"), "--html", str(tmp_path / "pin.html")]) == 0
    assert "Only the recorded placement was simulated" in (tmp_path / "pin.html").read_text()
    assert not rows(tmp_path / "pin.html")["charts"]


def test_a_simulation_says_which_windows_have_a_p99(
    simulated: tuple[Run, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """999 wakeups of a window have none; the range of the others need not hold the p99 of all."""
    assert "p99, windows" not in told(capsys, "report", simulated[0].path).partition("Closed loop")[2]
    run = shutil.copytree(simulated[0].path, tmp_path / "s.run")
    con = duckdb.connect()
    con.execute(f"CREATE TABLE woken AS FROM '{run}/woken.parquet'")
    con.execute(f"CREATE TABLE arm AS FROM '{run}/arm.parquet'")
    con.execute("""
        DELETE FROM woken WHERE rowid IN (
            SELECT woken.rowid FROM woken JOIN arm ON arm.arm = woken.arm
            WHERE arm.policy = 'linux-6.1' AND window_id = 1 AND latency_ns IS NOT NULL
            ORDER BY woken.rowid OFFSET 999
        )
    """)
    kept = con.execute(f"COPY woken TO '{run}/woken.parquet' (FORMAT parquet)").fetchall()[0][0]
    change(run, rows=json.loads((run / "manifest.json").read_text())["rows"] | {"woken": kept})
    assert "p99, windows: of those with 1,000 wakeups or more: linux-6.1 3 of 4." in told(capsys, "report", run)


def test_where_no_range_of_windows_is_known_none_is_said_to_overlap(simulated: tuple[Run, Path]) -> None:
    unknown = dict.fromkeys(name for names in RANGES.values() for name in names)
    found = simulation_of(simulated[0])
    found = replace(found, policies=[p | unknown for p in found.policies])
    page = simulated_page(found, Figures(None, [], [], []), "", tool="1", recording=None)
    assert "None is coloured: of no policy is it known that its windows all lie outside the range of" in page


def test_a_simulation_as_markdown_and_csv(simulated: tuple[Run, Path], capsys: pytest.CaptureFixture[str]) -> None:
    text = told(capsys, "report", simulated[0].path, "--format", "markdown")
    assert "| V3 pinned |" in text and "| linux-6.1 (factual) |" in text
    assert "<img" not in text and "<script" not in text
    table = list(csv.DictReader(io.StringIO(told(capsys, "report", simulated[0].path, "--format", "csv"))))
    data = json.loads(told(capsys, "report", simulated[0].path, "--format", "json"))
    assert [row["kind"] for row in table] == ["pinned", "null", "factual", "policy", "policy"]
    assert [int(row["p50_ns"]) for row in table] == [p["p50_ns"] for p in data["policies"]]


@pytest.mark.slow
def test_the_charts_are_vega_lite(made: tuple[Run, Path]) -> None:
    altair = pytest.importorskip("altair")
    for spec in rows(made[1])["charts"].values():
        altair.Chart.from_dict(spec)


def test_every_policy_has_its_look() -> None:
    names = ["recorded", "prev", "linux-6.1", "irq-aware", "irq-aware:threshold=2", *(f"x{i}" for i in range(20))]
    seen = looks(names, "linux-6.1")
    assert list(seen) == names
    assert seen["recorded"].name == "recorded" and seen["linux-6.1"].name == "1" and seen["irq-aware"].name == "4"
    assert len({(look.name, look.dash) for look in seen.values()}) == len(names)
    assert seen == looks(names, "linux-6.1")
    style = (Path(charts.__file__).parent / "style.css").read_text()
    assert all(style.count(f"--p-{look.name}:") == 3 for look in seen.values()), "light, dark by system, dark by choice"


def test_without_the_extra_the_error_names_it(
    made: tuple[Run, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert main(["report", str(made[0].path), "--html", str(tmp_path / "no.html")]) == 1
    assert "pip install 'rewake[report]'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written(made: tuple[Run, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(made[0].path), "--html", "/proc/none/p.html"]) == 2
    assert "no such directory" in capsys.readouterr().err


@pytest.mark.slow
def test_a_page_of_a_million_decisions_takes_five_seconds_of_cpu(own_cache: None, tmp_path: Path) -> None:
    import resource
    import subprocess
    import sys

    bigrun.run(tmp_path / "p.run", bigrun.recording(tmp_path / "r.rewake", 1_000_000))
    command = [
        sys.executable,
        "-m",
        "rewake.cli",
        "report",
        str(tmp_path / "p.run"),
        "--html",
        str(tmp_path / "p.html"),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # makes and keeps the script, once per machine
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 5
