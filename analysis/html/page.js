// SPDX-License-Identifier: GPL-2.0-or-later
// Draws the charts of the page and switches theme, policies and heatmaps. Adds no number of its own.
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const views = new Map();
  const off = new Set();
  const embedding = {
    mode: "vega-lite", renderer: "svg", ast: true, actions: false, defaultStyle: false,
    tooltip: { disableDefaultStyle: true },
  };

  const press = (buttons, pressed) => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(pressed(button)));
  };

  // Theme: a class on the root; "auto" leaves it to the system.
  const themes = all("[data-theme]");
  for (const button of themes)
    button.addEventListener("click", () => {
      document.documentElement.className = button.dataset.theme === "auto" ? "" : button.dataset.theme;
      press(themes, (b) => b === button);
    });

  // Legend: what is switched off fades in every chart, and its panel goes.
  const legend = all("[data-policy]");
  const everything = document.getElementById("all");
  const follow = () => {
    press(legend, (b) => !off.has(b.dataset.policy));
    everything.hidden = off.size === 0;
    for (const panel of all("[data-panel]")) panel.hidden = off.has(panel.dataset.panel);
    return Promise.all(
      [...views].filter(([id]) => !id.startsWith("heat")).map(([, view]) => view.signal("off", [...off]).runAsync()),
    );
  };
  for (const button of legend)
    button.addEventListener("click", () => {
      const policy = button.dataset.policy;
      if (!off.delete(policy)) off.add(policy);
      follow();
    });
  everything?.addEventListener("click", () => {
    off.clear();
    follow();
  });

  // Heatmaps: the cells of one policy, its own moves or minus the kernel's.
  const choice = document.getElementById("policy");
  const ways = all("[data-view]");
  let way = "n";
  const fill = () => {
    const section = document.getElementById("moves");
    section.classList.toggle("difference", way === "difference");
    for (const place of all(".heat-of"))
      place.textContent = way === "n" ? choice.value : `${choice.value} minus recorded`;
    document.getElementById("ramp-text").textContent =
      way === "n" ? "few to many moves" : "fewer or more than the kernel";
    return Promise.all(data.heats.map((heat) => {
      const view = views.get(heat.id);
      if (!view) return null;
      const value = way === "n" ? (c) => c[2] : (c) => Math.abs(c[4]);
      const top = Math.max(1, ...Object.values(heat.cells).map((cells) => cells.reduce((m, c) => Math.max(m, value(c)), 0)));
      const rows = (heat.cells[choice.value] ?? []).filter((c) => value(c) > 0).map((c) => ({
        from: c[0], from2: c[0] + 1, to: c[1], to2: c[1] + 1, n: c[2], recorded: c[3], difference: c[4],
        from_name: heat.names[c[0]], to_name: heat.names[c[1]], size: value(c), label: way === "n" ? String(c[2]) : (c[4] > 0 ? "+" : "") + c[4],
        sign: way === "n" ? "n" : c[4] > 0 ? "more" : "fewer",
      }));
      return view.signal("top", top).data("cells", rows).runAsync();
    }));
  };
  choice?.addEventListener("change", fill);
  for (const button of ways)
    button.addEventListener("click", () => {
      way = button.dataset.view;
      press(ways, (b) => b === button);
      fill();
    });

  (async () => {
    for (const [id, spec] of Object.entries(data.charts)) {
      const place = document.getElementById(id);
      if (place) views.set(id, (await vegaEmbed(place, spec, embedding)).view);
    }
    if (choice) await fill();
    await document.fonts.ready;
    document.documentElement.dataset.drawn = String(views.size);
  })();
})();
