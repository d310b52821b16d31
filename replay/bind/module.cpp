// SPDX-License-Identifier: GPL-2.0-or-later
// Extension module rewake.replay._engine: batches of columns in, batches of columns out.
#include <nanobind/nanobind.h>

#include "replay/bind/conformance.hpp"
#include "replay/bind/engine.hpp"

NB_MODULE(_engine, m) {
    m.doc() = "The replay engine: topology, decision builder, open loop, closed loop, policies, conformance.";
    bind_model(m);
    bind_plugin(m);
    bind_open_loop(m);
    bind_closed_loop(m);
    bind_policies(m);
    bind_conformance(m);
}
