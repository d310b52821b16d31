// SPDX-License-Identifier: GPL-2.0-or-later
// The first pass over the records of a perf.data file: attrs and formats of a pipe's stream, what was lost, where the
// records lie in order of time. Reads every record once, keeps none.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collectors/decode/perfdata/chains.hpp"
#include "collectors/decode/perfdata/header.hpp"
#include "collectors/decode/perfdata/unpack.hpp"

namespace rewake::decode::perf {

struct Scan {
    std::vector<Chains::Chain> chains;
    std::unique_ptr<Spool> spool;                ///< what the segments with `unpacked` lie in; may be null
    uint32_t n_cpus = 0;                         ///< above every CPU number that counts
    std::vector<uint64_t> lost;  ///< by CPU: events lost as perf counted them at the end of recording
    std::map<std::string, uint64_t> not_traced;  ///< samples of events that are no tracepoints, by name
    std::vector<uint32_t> traced;  ///< CPUs that tracepoints were asked for on, in order; empty: the file does not say
    bool some_tasks = false;  ///< only some tasks were recorded, not the whole machine
    bool tail_lost = false;  ///< the end of the records could not be read
};

/// Walks all records; completes `h` from a pipe's stream. Throws Error.
Scan scan(const File& file, Header& h, Problems& problems);

}  // namespace rewake::decode::perf
