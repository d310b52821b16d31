// SPDX-License-Identifier: GPL-2.0-or-later
// Draws a Vega-Lite chart into an element, in the colours of the page, and again when they change.
"use strict";

const dark = window.matchMedia("(prefers-color-scheme: dark)");

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function config() {
  const ink = colour("soft"), grid = colour("line");
  return {
    background: "transparent",
    font: "system-ui, sans-serif",
    view: { stroke: "transparent" },
    axis: { labelColor: ink, titleColor: ink, domainColor: grid, tickColor: grid, gridColor: grid, labelFontSize: 11 },
    legend: { labelColor: ink, titleColor: ink },
  };
}

async function draw(element, spec, datasets) {
  const own = structuredClone(spec);
  own.datasets = datasets;
  if (own.layer) own.layer = own.layer.filter((layer) => datasets[layer.data.name].length);  // an empty one has no extent
  if (own.layer && !own.layer.length) return void (element.textContent = "unbounded in every run");
  for (const layer of own.layer || []) layer.mark.color = colour(layer.mark.style);
  const options = { renderer: "svg", ast: true, actions: false, defaultStyle: false, config: config(),
                    tooltip: { disableDefaultStyle: true } };
  if (element.view) element.view.finalize();
  element.view = (await vegaEmbed(element, own, options)).view;
  element.dataset.drawn = "yes";
}

const read = (id) => JSON.parse(document.getElementById(id).textContent);
