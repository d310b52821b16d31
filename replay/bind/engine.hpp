// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <nanobind/nanobind.h>

#include "replay/bind/columns.hpp"
#include "replay/engine/explanation.hpp"
#include "replay/engine/open_loop.hpp"
#include "replay/model/decisions.hpp"
#include "replay/model/events.hpp"
#include "replay/model/fair/queues.hpp"
#include "replay/model/tasks.hpp"
#include "replay/model/topology.hpp"

namespace rewake::bind {

/// Reads the tables of a batch that the model needs; tables may be missing. Pointers live as long as `batch`.
Batch read_batch(const nb::dict& batch);
/// Of the switches when they were and where; of the tasks nothing.
SwitchColumns read_switch_times(const nb::dict& batch);

/// A recorded machine: topology and tasks, shared by the builder and the replay.
struct Recorded {
    Topology topo;
    TaskTable tasks;
};

/// Decisions of a part; pointers live as long as `t`. Throws std::invalid_argument for a CPU or task that does not exist.
DecisionColumns read_decisions(const nb::dict& t, size_t n_cpus, size_t n_tasks, size_t n_masks);
ReplayOptions read_options(const nb::dict& options);
/// Of the recorded kernel, by its version and tunables (replay/fair.py).
FairSettings read_fair(const Topology& topo, const nb::dict& options);
/// Policies of (name, parameters) pairs or PolicySource objects.
std::vector<std::unique_ptr<Policy>> make_policies(const std::vector<nb::object>& specs, const Topology& topo,
                                                   uint64_t seed);

/// Explanations as plain dicts; their keys: replay/explain.py.
nb::list plain(const std::vector<Explanation>& explanations, const Topology& topo);

/// The pairs that name an existing CPU and task.
Running known(const Recorded& r, const Running& running);

}  // namespace rewake::bind

void bind_model(nanobind::module_& m);
void bind_open_loop(nanobind::module_& m);
void bind_closed_loop(nanobind::module_& m);
void bind_plugin(nanobind::module_& m);
