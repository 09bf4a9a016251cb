"""The page that explains a run, in a real browser: it folds, filters, obeys the keyboard, and runs nothing else."""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from jsrun.called_lines import called_lines
from jsrun.explain_html import explain_html
from jsrun.journal import RunRecord
from jsrun.testing import bundle
from jsrun.timeline import timeline
from tests.jsrun.browser import chromium, console
from tests.jsrun.journal_rows import entry_row, run_row
from tests.jsrun.test_explain_html import EVIL, hostile_page

PROGRAM = "function run() {\n  tool('read');\n  tool('list');\n}\n"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """One browser for all tests of this file."""
    with chromium(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture
def page(browser: Chrome, tmp_path: Path) -> Chrome:
    """A run with three calls: two of `read`, one of `list` that failed."""
    answers = [("read", "apple"), ("list", "pear"), ("read", "plum")]
    rows = [
        replace(
            entry_row("R", seq, ref=ref, state="err" if ref == "list" else "ok", output=json.dumps({"text": text})),
            at=f"2026-01-31T12:00:00.{seq}00Z",
            elapsed_ms=400.0,
            err="no such folder" if ref == "list" else None,
        )
        for seq, (ref, text) in enumerate(answers, start=1)
    ]
    run = replace(run_row("R"), form="async")
    line = timeline(RunRecord(run, tuple(rows)))
    made = bundle(PROGRAM, whitelist=["read", "list"])
    show(browser, tmp_path, explain_html(line, called_lines(made, line.calls)))
    return browser


def show(browser: Chrome, folder: Path, text: str) -> None:
    """Open a page from a file."""
    file = folder / "page.html"
    file.write_text(text, encoding="utf-8")
    console(browser)  # what earlier pages said
    browser.get(file.as_uri())


def calls(page: Chrome) -> list[WebElement]:
    """The calls that can be seen."""
    return [found for found in page.find_elements(By.CSS_SELECTOR, ".call") if found.is_displayed()]


def seqs(page: Chrome) -> list[str]:
    """The numbers of the calls that can be seen."""
    return [found.find_element(By.CSS_SELECTOR, "summary span").text for found in calls(page)]


def is_open(call: WebElement) -> bool:
    """Is the call unfolded?"""
    return call.get_attribute("open") is not None


def focused_seq(page: Chrome) -> str:
    """The number of the call that has the focus."""
    return page.switch_to.active_element.find_element(By.CSS_SELECTOR, "span").text


def press(page: Chrome, *keys: str) -> None:
    """Press keys, wherever the focus is."""
    ActionChains(page).send_keys(*keys).perform()


def test_a_click_unfolds_and_folds_a_call(page: Chrome) -> None:
    first = calls(page)[0]
    assert "apple" not in first.text
    first.find_element(By.CSS_SELECTOR, "summary").click()
    assert "apple" in first.text
    first.find_element(By.CSS_SELECTOR, "summary").click()
    assert "apple" not in first.text


def test_the_filter_looks_into_folded_calls(page: Chrome) -> None:
    search = page.find_element(By.ID, "search")
    search.send_keys("READ plum")
    assert seqs(page) == ["3"]
    assert page.find_element(By.ID, "count").text == "1 of 3 calls"
    search.clear()
    search.send_keys("err")
    assert seqs(page) == ["2"]
    search.clear()
    search.send_keys("nothing has this")
    assert seqs(page) == []


def test_fold_buttons_act_on_what_is_shown(page: Chrome) -> None:
    page.find_element(By.ID, "search").send_keys("read")
    page.find_element(By.ID, "unfold").click()
    press(page, Keys.ESCAPE)
    assert [is_open(call) for call in calls(page)] == [True, False, True]
    page.find_element(By.ID, "fold").click()
    assert [is_open(call) for call in calls(page)] == [False, False, False]


def test_the_keyboard_reaches_everything(page: Chrome) -> None:
    press(page, "/")
    press(page, "read")
    assert seqs(page) == ["1", "3"]
    press(page, Keys.ARROW_DOWN)
    assert focused_seq(page) == "1"
    press(page, Keys.ARROW_DOWN)
    assert focused_seq(page) == "3"
    press(page, Keys.ENTER)
    assert is_open(calls(page)[1])
    press(page, Keys.ARROW_UP, Keys.ARROW_UP)
    assert page.switch_to.active_element.get_attribute("id") == "search"
    press(page, Keys.ESCAPE)
    assert seqs(page) == ["1", "2", "3"]


def test_tab_goes_through_the_calls(page: Chrome) -> None:
    page.find_element(By.ID, "fold").click()
    for expected in ("1", "2", "3"):
        press(page, Keys.TAB)
        assert focused_seq(page) == expected


def test_a_line_of_the_program_leads_to_its_call_even_if_that_is_filtered_out(page: Chrome) -> None:
    page.find_element(By.ID, "search").send_keys("read")
    link = page.find_element(By.CSS_SELECTOR, '#line-3 a[href="#call-1-2"]')
    link.click()
    call = page.find_element(By.ID, "call-1-2")
    assert call.is_displayed()
    assert is_open(call)
    assert "no such folder" in call.text
    call.find_element(By.CSS_SELECTOR, 'a[href="#line-3"]').click()
    assert page.current_url.endswith("#line-3")


def test_bars_of_calls_at_the_same_time_overlap(page: Chrome) -> None:
    boxes = [found.rect for found in page.find_elements(By.CSS_SELECTOR, ".call .bar rect")]
    assert len(boxes) == 3
    for left, right in pairwise(boxes):
        assert left["x"] < right["x"] < left["x"] + left["width"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_schemes_are_readable(page: Chrome, scheme: str) -> None:
    """The contrast of text on its background is at least 4.5 to 1, as the accessibility guidelines ask."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    for name in ("body", ".soft", ".err .state", ".row .number", ".row.called .text", ".row.called a", ".note"):
        ink, paper = page.execute_script(_COLORS, page.find_element(By.CSS_SELECTOR, name))
        assert _contrast(ink, paper) >= 4.5, name
    dark = _luminance(page.execute_script(_COLORS, page.find_element(By.TAG_NAME, "body"))[1]) < 0.5
    assert dark == (scheme == "dark")


def test_hostile_text_runs_nothing_and_loads_nothing(browser: Chrome, tmp_path: Path) -> None:
    show(browser, tmp_path, hostile_page(EVIL))
    browser.find_element(By.ID, "unfold").click()
    assert browser.find_elements(By.TAG_NAME, "img") == []
    assert len(browser.find_elements(By.TAG_NAME, "script")) == 1
    assert browser.find_element(By.TAG_NAME, "h1").text == EVIL
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert console(browser) == []


def test_the_policy_stops_what_would_get_through_all_the_same(browser: Chrome, tmp_path: Path) -> None:
    """Markup put into the page by hand: no script runs, no handler, no picture is fetched, no style applies."""
    markup = (
        "<script>document.title = 'script ran'</script>"
        "<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw=' onerror=\"document.title = 'handler ran'\""
        " onload=\"document.title = 'picture came'\"><p id='styled' style='color: rgb(1, 2, 3)'>x</p>"
    )
    show(browser, tmp_path, hostile_page("x").replace("<main>", f"<main>{markup}"))
    assert "ran" not in browser.title
    assert "came" not in browser.title
    color = browser.find_element(By.ID, "styled").value_of_css_property("color")
    assert "1, 2, 3" not in color
    assert len([text for text in console(browser) if "Content Security Policy" in text]) >= 3


_COLORS = """
let ground = arguments[0];
const clear = "rgba(0, 0, 0, 0)";
while (ground.parentElement && getComputedStyle(ground).backgroundColor === clear) ground = ground.parentElement;
const read = (color) => color.match(/[0-9.]+/g).slice(0, 3).map(Number);
return [read(getComputedStyle(arguments[0]).color), read(getComputedStyle(ground).backgroundColor)];
"""


def _luminance(color: list[float]) -> float:
    parts = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in color]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def _contrast(one: list[float], two: list[float]) -> float:
    light, dark = sorted((_luminance(one), _luminance(two)), reverse=True)
    return (light + 0.05) / (dark + 0.05)
