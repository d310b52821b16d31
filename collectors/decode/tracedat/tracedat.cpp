// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/tracedat/tracedat.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "collectors/decode/rows.hpp"

namespace rewake::decode {

TraceDat::TraceDat(const std::string& path, size_t most)
    : TraceFile(path), Decoder({formats, TraceFile::problems, container.n_cpus, layout.long_size}, most) {
    if (container.big_endian) {
        records_.emplace<Records<true>>(static_cast<TraceFile&>(*this));
    } else {
        records_.emplace<Records<false>>(static_cast<TraceFile&>(*this));
    }
}

std::vector<std::string> TraceDat::missing() const {
    static constexpr std::string_view kNoTime[] = {"counter", "uptime", "x86-tsc", "ppc-tb"};
    const std::string& clock = container.clock;
    if (container.tsc_mult != 0 || std::find(std::begin(kNoTime), std::end(kNoTime), clock) == std::end(kNoTime)) {
        return {};
    }
    return {"the unit of the times: the clock " + clock + " counts something else, taken as ns; record with -C mono"};
}

bool TraceDat::fill(Batch& b, int64_t end) {
    return std::visit(
        [&](auto& records) {
            if constexpr (std::is_same_v<std::decay_t<decltype(records)>, std::monostate>) {
                return false;
            } else {
                return records.run([&](const auto& s) {
                    visit(s, ns(s.ts()), b);
                    return next_id_ < end;
                });
            }
        },
        records_);
}

}  // namespace rewake::decode
