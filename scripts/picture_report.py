"""Take the pictures of the report's page that docs/reports.md shows.

maxfl demo --out runs/demo && maxfl report runs/demo
python scripts/picture_report.py runs/demo/report/report.html
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parent.parent / "docs"
WIDTH, TOP = 1180, 880


def main() -> None:
    """Open the page; take its beginning, and the part about single clients."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": WIDTH, "height": 6000})
        page.goto(Path(sys.argv[1]).resolve().as_uri())
        page.wait_for_selector("body[data-ready]")
        beginning = {"x": 0, "y": 0, "width": WIDTH, "height": TOP}
        page.screenshot(path=DOCS / "report.png", clip=beginning)
        page.locator("#clients").screenshot(path=DOCS / "report-clients.png")
        browser.close()


if __name__ == "__main__":
    main()
