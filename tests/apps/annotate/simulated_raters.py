"""Simulated raters of a study: real browsers, driven by keys and clicks."""

import os
import re
import shutil
import signal

from tests.browser import NAMES, SIZES


class SimulatedRater:
    """A rater in a browser window.

    Attributes:
      page: playwright's page.
      given: (unit, number) -> answer, for all answers that the server has confirmed.
    """

    def __init__(self, browser, link, size="desktop"):
        width, height = SIZES[size]
        self._link, self.given = link, {}
        self.page = browser.new_page(viewport={"width": width, "height": height})
        self.open()

    def open(self):
        """Opens the link, like a returning rater."""
        self.page.goto(self._link)
        with self.page.expect_navigation():
            self.page.click("text=Start")

    @property
    def place(self):
        """(unit, number) of the question on the page; None at the end."""
        found = re.search(r"/item/(\d+)/(\d+)$", self.page.url)
        return found and (int(found[1]), int(found[2]))

    def choose(self, answer):
        """Chooses an answer without sending it: a rating such as 3.2, or the value of a choice."""
        if isinstance(answer, float):
            whole, tenths = divmod(round(10 * answer), 10)
            self.page.keyboard.press(str(whole))
            for _ in range(tenths):
                self.page.keyboard.press("ArrowRight")
        else:
            choices = self.page.query_selector_all("input[type=radio]")
            values = [each.get_attribute("value") for each in choices]
            self.page.keyboard.press(str(1 + values.index(answer)))

    def send(self, answer):
        """Chooses and sends an answer; it counts as given when the next page appears."""
        place = self.place
        self.choose(answer)
        with self.page.expect_navigation():
            self.page.keyboard.press("Enter")
        self.given[place] = answer

    def answer_all(self, answer_of, most=1000):
        """Sends `answer_of(place)` for up to `most` questions; returns the number answered."""
        count = 0
        while self.place and count < most:
            self.send(answer_of(self.place))
            count += 1
        return count


def kill_browser(browser):
    """Kills all processes of a browser with SIGKILL."""
    session = browser.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    os.kill(next(each["id"] for each in processes if each["type"] == "browser"), signal.SIGKILL)


def another_browser(chromium):
    """Starts another process of the same Chromium."""
    path = next(filter(None, map(shutil.which, NAMES)))
    return chromium.browser_type.launch(executable_path=path)
