"""Clicks through the page in a headless Chromium: `make test-tools`."""

import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import html_reports
import numpy as np
import pytest

from mlc.tools.html.page import page_of

pytestmark = pytest.mark.tools
VIEWS = ("overview", "graph", "levels", "passes", "memory", "time")
WIDE, NARROW = (1400, 900), (420, 860)


def program(*names: str) -> str:
    """The path of the first program that is installed; skips with their names if none is."""
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip(f"needs {' or '.join(names)}")
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    options = webdriver.ChromeOptions()
    options.binary_location = program("chromium", "chromium-browser", "google-chrome")
    service = webdriver.ChromeService(program("chromedriver"))
    with tempfile.TemporaryDirectory() as profile:
        for word in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu", f"user-data-dir={profile}"):
            options.add_argument(f"--{word}")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options=options, service=service)
        driver.implicitly_wait(10)
        yield driver
        driver.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with times, of a model whose nodes have hostile names."""
    names = tuple(f"{html_reports.HOSTILE}{k}" for k in range(4))
    inputs = {"x": np.ones((2, 8), np.float32)}
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page_of(html_reports.report(html_reports.twins(names), inputs, html_reports.HOSTILE)))
    return path


class Shown:
    """The page in the browser, and what a person does with it."""

    def __init__(self, browser: Any, page: Path, size: tuple[int, int] = WIDE, dark: bool = False) -> None:
        self.browser = browser
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.get("about:blank")
        browser.get(page.as_uri())
        self.one("body[data-ready]")

    def all(self, css: str) -> list[Any]:
        return self.browser.find_elements("css selector", css)

    def one(self, css: str) -> Any:
        return self.browser.find_element("css selector", css)

    def gone(self, css: str) -> bool:
        """Whether there is no such element, now."""
        return self.js("document.querySelector(arguments[0]) === null", css)

    def js(self, code: str, *args: Any) -> Any:
        return self.browser.execute_script(f"return {code}", *args)

    def open(self, view: str) -> None:
        self.one(f"[data-tab={view}]").click()
        self.one(f"main.v-{view} > section")

    def keys(self, *keys: str) -> None:
        from selenium.webdriver import ActionChains

        ActionChains(self.browser).send_keys(*keys).perform()

    def point(self, element: Any) -> None:
        from selenium.webdriver import ActionChains

        ActionChains(self.browser).move_to_element(element).perform()

    def row(self, pane: str, word: str) -> Any:
        """The number of the line in sight that holds a word, in a pane of the levels view: a row may be wider."""
        row = next(row for row in self.all(f".p-{pane} .row") if word in row.text)
        return row.find_element("css selector", ".no")

    def marked(self, pane: str) -> str:
        return "\n".join(row.text for row in self.all(f".p-{pane} .row.m2"))


@pytest.fixture
def shown(browser: Any, page: Path) -> Iterator[Shown]:
    browser.get_log("browser")
    yield Shown(browser, page)
    assert [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_names_of_a_model_stay_text(shown: Shown):
    for view in VIEWS:
        shown.open(view)
    shown.open("graph")
    assert shown.browser.title == f"{html_reports.HOSTILE} - mlc"
    assert html_reports.HOSTILE in shown.one("#model-name").text
    shown.all(".n-kernel")[0].click()
    assert html_reports.HOSTILE in shown.one(".side").text
    assert shown.gone("img")


def test_nothing_is_fetched(shown: Shown):
    for view in VIEWS:
        shown.open(view)
    assert shown.js("performance.getEntriesByType('resource').map((one) => one.name)") == []


def test_a_line_is_marked_on_every_level(shown: Shown):
    shown.open("levels")
    shown.point(shown.row("te", "arith.maximumf"))
    assert "graph.relu" in shown.marked("graph")
    assert "arith.maximumf" in shown.marked("loop")
    assert "graph.dense" not in shown.marked("graph")
    assert shown.all(".p-low .row.m2")
    assert "graph.relu" in shown.one(".provenance").text
    shown.point(shown.one(".brand"))
    assert shown.gone(".row.m2")
    shown.row("loop", "loop.for").click()
    shown.point(shown.one(".brand"))
    assert shown.all(".p-low .row.m2")
    shown.keys("\ue00c")  # Escape
    assert shown.gone(".row.m2")


def test_lines_by_keys(shown: Shown):
    shown.open("levels")
    shown.js("document.querySelector('.p-graph .code').focus()")
    shown.keys("\ue015", "\ue015")  # arrow down
    assert shown.one(".p-graph .row.cursor").text.startswith("2")
    assert shown.all(".p-te .row.m2")
    shown.open("passes")
    first = shown.one(".picker select").get_attribute("value")
    shown.keys("]")
    assert shown.one(".picker select").get_attribute("value") != first


def test_machine_code_as_llvm_ir(shown: Shown):
    shown.open("levels")
    shown.one("[data-key=llvm-ir]").click()
    assert any("define" in row.text for row in shown.all(".p-low .row"))


def test_passes_show_what_they_changed(shown: Shown):
    shown.open("passes")
    folded = len(shown.all(".step"))
    shown.all(".fold")[0].click()
    assert len(shown.all(".step")) > folded
    shown.all(".step.same")[0].click()
    assert "unchanged" in shown.one(".right").text
    next(step for step in shown.all(".step") if "graph-fuse-ops" in step.text).click()
    assert any("graph.fused" in row.text for row in shown.all(".d-add"))
    assert any("graph.relu" in row.text for row in shown.all(".d-del"))
    gone = next(row for row in shown.all(".d-del") if "graph.relu" in row.text)
    shown.point(gone.find_element("css selector", ".no"))
    assert any("graph.relu" in row.text for row in shown.all(".d-add.m2"))
    assert shown.js("location.hash").startswith("#passes/0/")


def test_a_conversion_is_shown_beside_what_it_made(shown: Shown):
    shown.open("passes")
    shown.browser.execute_script("go('passes', 1)")
    next(step for step in shown.all(".step") if "convert-te-to-loop" in step.text).click()
    before, after = shown.all(".compare .pane")
    assert "te.func" in before.text
    assert "loop.func" in after.text
    row = next(row for row in before.find_elements("css selector", ".row") if "te.compute" in row.text)
    shown.point(row.find_element("css selector", ".no"))
    assert after.find_elements("css selector", ".row.m2")


def test_the_graph_zooms_and_steps(shown: Shown):
    shown.open("graph")
    before = shown.one(".drawing > g").get_attribute("transform")
    shown.all(".zoom button")[0].click()
    assert shown.one(".drawing > g").get_attribute("transform") != before
    shown.js("document.querySelector('.drawing').focus()")
    shown.keys("n")
    first = shown.one(".kernel-name").text
    shown.keys("n")
    assert shown.one(".box.selected")
    assert shown.js("location.hash") == "#graph/1"
    shown.browser.back()
    shown.open("graph")
    assert first


def test_memory_moves_by_keys(shown: Shown):
    shown.open("memory")
    shown.one(".plot").click()
    shown.keys("\ue011")  # Home
    assert "call 0" in shown.one(".alive h3").text
    shown.keys("\ue014")  # arrow right
    assert "call 1" in shown.one(".alive h3").text
    assert shown.all(".life.on")


def test_times_sort(shown: Shown):
    shown.open("time")
    names = [row.text for row in shown.all(".kernels tbody tr")]
    assert len(names) == shown.js("data.facts.profile.kernels.length")
    assert shown.all("circle.kernel")
    shown.one("th.c-seconds button").click()
    assert [row.text for row in shown.all(".kernels tbody tr")] == names[::-1]


def test_search_finds_kernels_nodes_and_texts(shown: Shown):
    shown.keys("/")
    shown.keys("relu")
    assert {"Kernels", "Operations"} <= {head.text.capitalize() for head in shown.all("#results h4")}
    shown.one("#search").clear()
    shown.one("#search").send_keys("arith.maximumf")
    assert "Texts".upper() in {head.text.upper() for head in shown.all("#results h4")}
    shown.keys("\ue015", "\ue007")  # arrow down, Enter
    assert "maximumf" in shown.one(".compare .row.cursor").text
    shown.one("#search").clear()
    shown.one("#search").send_keys("no such thing")
    assert "nothing found" in shown.one("#results .more").text


def test_keys_change_the_view(shown: Shown):
    for number, view in enumerate(VIEWS, 1):
        shown.keys(str(number))
        assert shown.one("[role=tab][aria-selected=true]").get_attribute("data-tab") == view
    shown.keys("?")
    assert shown.one("#help[open]")


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_nothing_is_wider_than_the_window(browser: Any, page: Path, size: tuple[int, int]):
    shown = Shown(browser, page, size)
    for view in VIEWS:
        shown.open(view)
        assert shown.js("document.documentElement.scrollWidth") <= size[0]
        assert shown.js("document.querySelector('main').scrollWidth") <= size[0], view


def test_a_narrow_window_shows_one_level_at_a_time(browser: Any, page: Path):
    shown = Shown(browser, page, NARROW)
    shown.open("levels")
    shown.row("te", "te.compute").click()
    assert [pane.get_attribute("data-level") for pane in shown.all(".pane") if pane.is_displayed()] == ["te"]
    shown.one("[data-key=loop]").click()
    assert [pane.get_attribute("data-level") for pane in shown.all(".pane") if pane.is_displayed()] == ["loop"]
    assert shown.all(".p-loop .row.m2")


def test_colours_follow_the_system(browser: Any, page: Path):
    colours = [
        Shown(browser, page, dark=dark).js("getComputedStyle(document.body).backgroundColor") for dark in (False, True)
    ]
    assert colours == ["rgb(246, 246, 243)", "rgb(20, 23, 27)"]


def test_differences_rebuild_both_sides(shown: Shown):
    rng = random.Random(0)
    for _ in range(20):
        a = [rng.randrange(6) for _ in range(rng.randrange(30))]
        b = [x for x in a if rng.random() < 0.8]
        b[rng.randint(0, len(b)) : 0] = [rng.randrange(6) for _ in range(rng.randrange(5))]
        edits = shown.js("differences(arguments[0], arguments[1])", a, b)
        assert [a[i] for kind, i, _ in edits if kind != "add"] == a
        assert [b[j] for kind, _, j in edits if kind != "del"] == b
        assert all(a[i] == b[j] for kind, i, j in edits if kind == "same")
