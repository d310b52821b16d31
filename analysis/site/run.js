// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";

const place = document.getElementById("latency");
const again = () => draw(place, read("spec"), { curve: read("data") });
dark.addEventListener("change", again);
again();
