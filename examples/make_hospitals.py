"""Write hospitals.csv and need.csv, made-up tables for the tutorial.

    python make_hospitals.py

24 hospitals of 40 to 200 patients. Who is readmitted follows from age, glucose, blood pressure and
smoking in the same way nearly everywhere; in the six rural hospitals, where the frail stay longer,
age counts the other way round. No patient is real.
"""

import csv
from pathlib import Path

import numpy as np

HOSPITALS, RURAL = 24, 6
COLUMNS = ("hospital", "age", "bmi", "glucose", "pressure", "smoker", "ward", "readmitted")


def patients(name: str, rural: bool, count: int, rng: np.random.Generator) -> list[tuple]:
    """Draw the rows of one hospital."""
    age = rng.normal(70 if rural else 58, 12, count).clip(18, 95).round()
    bmi = rng.normal(27, 4, count).round(1)
    glucose = rng.normal(6, 1.5, count).round(1)
    pressure = rng.normal(130, 18, count).round()
    smoker = rng.random(count) < 0.25
    ward = rng.choice(["emergency", "medicine", "surgery"], count)
    z_age, z_glucose, z_pressure = (age - 60) / 12, (glucose - 6) / 1.5, (pressure - 130) / 18
    odds = 1.2 * z_glucose + 0.7 * z_pressure + 0.8 * smoker + 0.5 * (ward == "emergency") - 0.6
    odds += (-1.5 if rural else 1.5) * z_age
    readmitted = rng.random(count) < 1 / (1 + np.exp(-2 * odds))
    missing = rng.random(count) < 0.02
    return [
        (name, int(age[i]), "" if missing[i] else bmi[i], glucose[i], int(pressure[i]),
         "yes" if smoker[i] else "no", ward[i], "yes" if readmitted[i] else "no")
        for i in range(count)
    ]  # fmt: skip


def main() -> None:
    """Write both tables into the current folder."""
    rng = np.random.default_rng(2026)
    with Path("hospitals.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for k in range(HOSPITALS):
            rural = k >= HOSPITALS - RURAL
            name = f"{'rural' if rural else 'city'}-{k:02}"
            count = int(40 * 5 ** rng.random())
            table.writerows(patients(name, rural, count, rng))
    with Path("need.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [("client", "value"), ("city-00", 0.85), ("city-01", 0.8), ("rural-20", 0.75)]
        )


if __name__ == "__main__":
    main()
