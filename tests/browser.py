"""Pages in a Chromium of the system, driven by playwright; `conftest.py` makes `chromium` known."""

import contextlib
import shutil

import pytest

NAMES = ("chromium", "google-chrome", "google-chrome-stable", "chromium-browser")
SIZES = {"desktop": (1280, 800), "phone": (390, 844)}


@pytest.fixture(scope="module")
def chromium():
    """A headless Chromium; the test is skipped where none is on PATH."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"no Chromium on PATH, of {', '.join(NAMES)}")
    # While it runs, its event loop holds the thread: no test of the module may have its own.
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        yield browser
        browser.close()


@contextlib.contextmanager
def open_page(browser, address, *, size="desktop", scheme="light"):
    """Opens a file or an address; at the end, refuses errors that the page met.

    Args:
      browser: the fixture `chromium`.
      address: a path, or a URL.
      size: of the window, a key of `SIZES`.
      scheme: "light" or "dark".
    """
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
    )
    with contextlib.closing(context):
        page, errors = context.new_page(), []
        page.on("console", lambda message: message.type == "error" and errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("requestfailed", lambda request: errors.append(f"failed: {request.url[:200]}"))
        page.goto(address if "://" in str(address) else f"file://{address}")
        yield page
        assert not errors, "\n".join(errors)


def check_layout(page):
    """Refuses a page that is wider than its window, or an image that is not shown."""
    wide = page.evaluate(
        """() => document.documentElement.scrollWidth > innerWidth
            ? [...document.querySelectorAll("body *")]
                .filter(e => e.getBoundingClientRect().right > innerWidth)
                .map(e => e.outerHTML.slice(0, 200))
            : []"""
    )
    assert not wide, "wider than the window: " + "\n".join(wide)
    broken = page.evaluate(
        "() => [...document.images].filter(i => !i.complete || i.naturalWidth === 0)"
        ".map(i => i.outerHTML.slice(0, 200))"
    )
    assert not broken, "not shown: " + "\n".join(broken)


def check_accessibility(page):
    """Refuses a page with violations of the rules of axe."""
    from axe_playwright_python.sync_playwright import Axe

    violations = Axe().run(page).response["violations"]
    found = [
        f"{rule['id']}: {rule['help']}: {node['html'][:200]}"
        for rule in violations
        for node in rule["nodes"]
    ]
    assert not found, "\n".join(found)
