# SPDX-License-Identifier: GPL-2.0-or-later
"""How often `advise` recommends what makes no difference.

`noise`: settings that are the recorded kernel's column itself, its costs drawn anew from seeds of their own; so many
are tried that the best of them looks good where it was searched for. `hints`: the hints of the command's own search.

    python tests/advice_null.py noise|hints OBJECTIVE SEEDS REC REC...     each seed searches one REC and judges another
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import permutations
from pathlib import Path

import rewake
from rewake import advising, runs
from rewake.analysis import advice
from rewake.forms import Recording
from rewake.replay.settings import Settings
from rewake.replay.spec import parse


def advised(
    what: str,
    objective: str,
    seeds: Sequence[int],
    recordings: dict[str, Recording],
    tried: int = 12,
    settings: Settings | None = None,
    guards: Sequence[str] = (),
) -> Iterator[tuple[str, str, advice.Advice]]:
    """Per seed: what was searched, what was judged, the answer."""
    pairs = list(permutations(recordings, 2))
    about = advice.objective(objective)
    auto = parse(runs.shared_column(recordings.values()))[0]
    noise = tuple(advising.Candidate(auto, drawn=2 + k) for k in range(tried))
    for seed in seeds:
        one, other = pairs[seed % len(pairs)]
        options = advising.Options(
            about, advice.guards(guards, about), noise if what == "noise" else (), tried if what == "hints" else 0, seed
        )
        found, _ = advising.advise(
            {one: recordings[one]}, {other: recordings[other]},
            settings or Settings(windows_ns=50_000_000, replicas=3), options,
        )  # fmt: skip
        yield one, other, found


def main(what: str, objective: str, seeds: str, *given: str) -> None:
    opened = {}
    for path in given:
        found = rewake.open(Path(path))
        opened[found.name] = forms = found._opened
        assert isinstance(forms, Recording)
    recommended = judged = 0
    for n, (one, other, found) in enumerate(advised(what, objective, range(int(seeds)), opened), 1):
        if (j := found.judged) is not None:
            judged += 1
            recommended += j.recommended
            told = f"{j.name}: {advice.percent(j.gain.test.effect):+.1f} % "
            told += f"[{advice.percent(j.gain.test.low):+.1f}, {advice.percent(j.gain.test.high):+.1f}]; "
            told += "; ".join(j.reasons) or "RECOMMENDED"
        else:
            told = "nothing to judge"
        print(f"{n} {one} -> {other}: {told}", flush=True)
    print(f"{what} {objective}: recommended {recommended} of {seeds}, judged {judged}")


if __name__ == "__main__":
    main(*sys.argv[1:])
