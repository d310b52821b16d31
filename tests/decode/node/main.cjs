// SPDX-License-Identifier: GPL-2.0-or-later
// Requests of TraceProcessorRpcStream on standard input, each after its length (4 bytes, little-endian); replies on
// standard output as they come. Usage: node main.cjs DIST, the folder with engine_bundle.js.
"use strict";
const {Worker, MessageChannel} = require("worker_threads"), path = require("path");
const worker = new Worker(path.join(__dirname, "worker.cjs"), {workerData: process.argv[2]});
const {port1, port2} = new MessageChannel();
port1.on("message", data => process.stdout.write(Buffer.from(data)));
worker.on("error", e => { console.error(e); process.exit(1); });
worker.once("message", () => {
  worker.postMessage({port: port2}, [port2]);
  let held = Buffer.alloc(0);
  process.stdin.on("data", chunk => {
    held = Buffer.concat([held, chunk]);
    while (held.length >= 4 && held.length >= 4 + held.readUInt32LE(0)) {
      const n = held.readUInt32LE(0);
      port1.postMessage(new Uint8Array(held.subarray(4, 4 + n)));
      held = held.subarray(4 + n);
    }
  });
});
