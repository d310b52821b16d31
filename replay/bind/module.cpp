// SPDX-License-Identifier: GPL-2.0-or-later
// Extension module rewake.replay._engine: batches of columns in, batches of columns out.
#include <nanobind/nanobind.h>

#include <cstdlib>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "replay/bind/conformance.hpp"
#include "replay/bind/engine.hpp"

NB_MODULE(_engine, m) {
    m.doc() = "The replay engine: topology, decision builder, open loop, closed loop, policies, conformance.";
    m.def(
        "give_back",
        [] {
#ifdef __GLIBC__
            malloc_trim(0);
#endif
        },
        "Gives memory that was freed back to the system, as far as the C library can: what one stage of a long "
        "computation left "
        "behind is not held beside what the next one takes.");
    bind_model(m);
    bind_plugin(m);
    bind_open_loop(m);
    bind_closed_loop(m);
    bind_policies(m);
    bind_conformance(m);
}
