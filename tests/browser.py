"""Pages in the system's Chromium, driven by playwright; `conftest.py` exports `chromium`."""

import contextlib
import shutil

import pytest

NAMES = ("chromium", "google-chrome", "google-chrome-stable", "chromium-browser")
SIZES = {"desktop": (1280, 800), "phone": (390, 844)}


@pytest.fixture(scope="module")
def chromium():
    """A headless Chromium; the test is skipped if none is on PATH."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"no Chromium on PATH, of {', '.join(NAMES)}")
    # While it runs, its event loop occupies the thread, so no test in the module may have its own.
    library = pytest.importorskip("playwright.sync_api", reason="it comes with the extra 'dev'")
    with library.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        yield browser
        browser.close()


@contextlib.contextmanager
def open_page(browser, address, *, size="desktop", scheme="light"):
    """Opens a file or an address; on exit, fails if the page had errors.

    Args:
      browser: the fixture `chromium`.
      address: a path, or a URL.
      size: window size, a key of `SIZES`.
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
        page.on("requestfailed", lambda request: errors.extend(_failures(request)))
        page.goto(address if "://" in str(address) else f"file://{address}")
        yield page
        assert not errors, "\n".join(errors)


def _failures(request):
    # Pages cancel the loading of images that they no longer show.
    return [] if request.failure == "net::ERR_ABORTED" else [f"failed: {request.url[:200]}"]


def check_layout(page):
    """Fails if a page is wider than its window or an image is not shown."""
    wide = page.evaluate(
        """() => document.documentElement.scrollWidth > innerWidth
            ? [...document.querySelectorAll("body *")]
                .filter(e => e.getBoundingClientRect().right > innerWidth)
                .map(e => e.outerHTML.slice(0, 200))
            : []"""
    )
    assert not wide, "wider than the window: " + "\n".join(wide)
    broken = page.evaluate(
        "() => [...document.images]"
        ".filter(i => i.checkVisibility() && !(i.complete && i.naturalWidth))"
        ".map(i => i.outerHTML.slice(0, 200))"
    )
    assert not broken, "not shown: " + "\n".join(broken)


def check_accessibility(page):
    """Fails if a page violates the rules of axe."""
    from axe_playwright_python.sync_playwright import Axe

    violations = Axe().run(page).response["violations"]
    found = [
        f"{rule['id']}: {rule['help']}: {node['html'][:200]}"
        for rule in violations
        for node in rule["nodes"]
    ]
    assert not found, "\n".join(found)
