// SPDX-License-Identifier: GPL-2.0-or-later
// Charts are drawn when they come into view; filters are kept in the address, so that a view can be sent to somebody.
"use strict";

const series = read("data"), spec = read("spec");
const cards = [...document.querySelectorAll(".card")];
const form = document.getElementById("filters");
const names = ["suite", "machine", "policy", "metric"];

function chart(card) {
  const own = series[Number(card.id.slice(1))];
  const points = own.points.map(([made, value, run, revision, shard]) =>
    ({ made, value, run, revision, href: `runs/${shard}.html` }));
  return draw(card.querySelector(".chart"), spec, { points, levels: own.levels, worse: own.worse, better: own.better });
}

const watcher = new IntersectionObserver((seen) => {
  for (const entry of seen) {
    if (!entry.isIntersecting) continue;
    watcher.unobserve(entry.target);
    chart(entry.target);
  }
}, { rootMargin: "300px" });

function apply() {
  const asked = new FormData(form);
  let shown = 0;
  for (const card of cards) {
    const fits = names.every((n) => !asked.get(n) || card.dataset[n] === asked.get(n))
      && (!asked.get("changed") || card.dataset.changed);
    card.hidden = !fits;
    if (fits) shown += 1;
  }
  document.getElementById("shown").value = `${shown} of ${cards.length} shown`;
  document.getElementById("nothing").hidden = shown > 0;
  const kept = new URLSearchParams([...asked].filter(([, value]) => value));
  history.replaceState(null, "", `#${kept}`);
}

// What the address does not name is off: the one before may have named it.
function restore() {
  const asked = new URLSearchParams(location.hash.slice(1));
  form.elements.changed.checked = Boolean(asked.get("changed"));
  for (const name of names) form.elements[name].value = asked.get(name) ?? "";
}

form.addEventListener("change", apply);
form.addEventListener("reset", () => setTimeout(apply));
form.addEventListener("submit", (event) => event.preventDefault());
window.addEventListener("hashchange", () => { restore(); apply(); });
dark.addEventListener("change", () => cards.filter((c) => c.querySelector("[data-drawn]")).forEach(chart));
restore();
apply();
cards.forEach((card) => watcher.observe(card));
