# SPDX-License-Identifier: GPL-2.0-or-later
"""A template filled: what the pages of replays and of simulations share. Figures are formatted, never computed.

Strings reach a template through `text.html`; rows of charts stand in a data block as JSON. The policy of a page
(Content-Security-Policy) names its one script and its one style sheet by their hashes and allows nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any

from rewake.analysis import grid, text
from rewake.errors import RewakeError

_MISSING = "a page needs the extra `report`: pip install 'rewake[report]'"


def bundle_version() -> str:
    """Which script `bundle` gives; RewakeError without the extra that makes it."""
    try:
        return version("vl-convert-python")
    except PackageNotFoundError:
        raise RewakeError(_MISSING) from None


def bundle() -> str:
    """Vega, Vega-Lite and their embedder as one script that defines vegaEmbed; takes two seconds to make."""
    try:
        import vl_convert
    except ImportError:
        raise RewakeError(_MISSING) from None
    made: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return made.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _file(name: str) -> str:
    return files("rewake.analysis.html").joinpath(name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() + "'"


def fill(template: str, vega: str, data: Mapping[str, Any], **values: Any) -> str:
    """The whole file. `vega` is `bundle`'s text, `data` what the page's script draws, `values` the template's."""
    try:
        import jinja2
        from markupsafe import Markup
    except ImportError:
        raise RewakeError(_MISSING) from None

    def harmless(value: Any) -> Any:
        if not isinstance(value, str) or isinstance(value, Markup):
            return value
        return Markup(text.html(value).replace(" %", "\N{NO-BREAK SPACE}%"))

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_file),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=harmless,
    )
    environment.globals |= {
        "count": grid.count, "counted": grid.counted, "percent": grid.percent, "share": grid.share,
        "number": grid.number, "micros": grid.micros, "ratio": lambda x: grid.number(x, 2), "span": _span,
    }  # fmt: skip
    style, script = _file("style.css"), _file("page.js")
    return environment.get_template(template).render(
        hashes=[_hash(vega), _hash(script)],
        style_hash=_hash(style),
        style=Markup(style),
        vega=Markup(vega),
        script=Markup(script),
        data=Markup(text.json_in_script(data)),
        **values,
    )


def _span(ns: int | None) -> str:
    if ns is None:
        return "an unknown time"
    return f"{ns / 1e9:.1f} s" if ns >= 1e9 else f"{ns / 1e6:.3g} ms"


_LEVELS = (("package", "package"), ("node", "NUMA node"), ("llc", "LLC"), ("core", "core"))


def tree(cpus: Sequence[Mapping[str, Any]], level: int = 0) -> list[dict[str, Any]]:
    """The machine as nested groups; a level that is unknown, or that only repeats the one above, is left out."""
    if level == len(_LEVELS):
        return []
    key, title = _LEVELS[level]
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for cpu in cpus:
        groups.setdefault(cpu[key], []).append(cpu)
    if None in groups:
        return tree(cpus, level + 1)
    return [
        {
            "kind": key,
            "title": f"{title} {name}",
            "cpus": _ranges([c["cpu"] for c in members]),
            "inner": tree(members, level + 1),
        }
        for name, members in groups.items()
    ]


def _ranges(cpus: Sequence[int]) -> str:
    """`0-3,8`: the kernel's way to write a set of CPUs."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and cpu == parts[-1][-1] + 1:
            parts[-1][1:] = [cpu]
        else:
            parts.append([cpu])
    return ",".join("-".join(map(str, p)) for p in parts)
