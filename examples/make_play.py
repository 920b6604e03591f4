"""Write a made-up play for characters-by-role.toml: some roles say every word backwards."""

from pathlib import Path

import numpy as np

rng = np.random.default_rng(0)
SUBJECTS = ["the king", "my lord", "a fool", "the queen", "our ghost", "this night", "the sea"]
VERBS = ["loves", "fears", "will see", "has lost", "speaks of", "dreams of", "must follow"]
OBJECTS = ["a crown", "the letter", "his sister", "old wine", "the storm", "no man", "a dagger"]
ENDS = [".", "!", "?", ", they say.", ", and yet!"]
roles = [f"{kind} {name}" for kind in ("LORD", "LADY", "SERVANT") for name in "ABCDEFGHIJ"]
talkative = rng.lognormal(0, 0.7, len(roles))


def sentence(role):
    """Draw a sentence; each role has a subject that it likes best."""
    favourite = SUBJECTS[role % len(SUBJECTS)]
    words = [rng.choice([favourite, *SUBJECTS]), rng.choice(VERBS), rng.choice(OBJECTS)]
    text = " ".join(words)
    if role % 4 == 0:
        text = " ".join(word[::-1] for word in text.split())
    return text + rng.choice(ENDS)


lines = ["A PLAY", ""]
for role in rng.choice(len(roles), 1500, p=talkative / talkative.sum()):
    lines.append(f"{roles[role]}: {' '.join(sentence(role) for _ in range(rng.integers(1, 5)))}")
path = Path("runs/play.txt")
path.parent.mkdir(exist_ok=True)
path.write_text("\n".join(lines) + "\n", encoding="utf-8")
print(f"{path}: {path.stat().st_size:,} characters said by {len(roles)} roles")
