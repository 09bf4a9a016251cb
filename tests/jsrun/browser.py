"""A headless Chromium for tests of pages. Where there is none the tests are skipped; in CI that is a failure."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

_HINT = "this test needs Chromium and its driver (Debian: apt-get install chromium chromium-driver)"
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
# Nothing of it may use the network, the graphics card or another profile.
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1280,1000",
)


@contextmanager
def chromium(profile: Path) -> Iterator[webdriver.Chrome]:
    """A browser with a new profile in the folder `profile`; see `console` for what it says."""
    browser = next((found for name in _CHROMIUM if (found := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        if os.environ.get("CI"):
            pytest.fail(_HINT)
        pytest.skip(_HINT)
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for option in (*_OPTIONS, f"--user-data-dir={profile}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # With the path given, selenium neither looks for a driver nor downloads one.
    chrome = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield chrome
    finally:
        chrome.quit()


def console(chrome: webdriver.Chrome) -> list[str]:
    """What the browser's console said since it was asked last."""
    entries = chrome.execute("getLog", {"type": "browser"})["value"]
    return [str(entry["message"]) for entry in entries]
