"""Take the picture of the report's page that docs/reports.md shows.

maxfl demo --out runs/demo && maxfl report runs/demo
python scripts/picture_report.py runs/demo/report/report.html
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

PICTURE = Path(__file__).parent.parent / "docs/report.png"


def main() -> None:
    """Open the page and take the part about single clients."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1180, "height": 6000})
        page.goto(Path(sys.argv[1]).resolve().as_uri())
        page.wait_for_selector("body[data-ready]")
        page.locator("#clients").screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    main()
