// SPDX-License-Identifier: GPL-2.0-or-later
// docs/performance.md rows 1, 3, 4 and 5: a trace.dat, perf.data, Perfetto trace or ftrace text to resident, merged
// columns of all events. Usage: decode_columns FILE
#include <cstdio>
#include <cstring>
#include <limits>

#include "collectors/decode/perfdata/perfdata.hpp"
#include "collectors/decode/pftrace/decoder.hpp"
#include "collectors/decode/text/decoder.hpp"
#include "collectors/decode/tracedat/tracedat.hpp"

namespace {

using namespace rewake::decode;

constexpr size_t kAll = std::numeric_limits<int32_t>::max();

/// Decodes all of it. `said`: where the counts are.
template <class D, class Said>
void run(D& decoder, const Said& said) {
    size_t rows = 0;
    const auto batch = decoder.next();
    if (batch != nullptr) {
        for (const size_t n : batch->rows()) {
            rows += n;
        }
    }
    std::printf("events %llu rows %zu tasks %zu\n", static_cast<unsigned long long>(said.events), rows,
                said.tasks().all().size());
    std::fflush(stdout);
    std::quick_exit(0);  // the peers do not give their memory back piece by piece either
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: decode_columns FILE\n");
        return 2;
    }
    try {
        char magic[8] = {};
        if (std::FILE* file = std::fopen(argv[1], "rb"); file != nullptr) {
            (void)!std::fread(magic, 1, sizeof magic, file);
            std::fclose(file);
        }
        if (std::memcmp(magic, "PERFILE2", sizeof magic) == 0) {
            perf::PerfData d(argv[1], kAll);
            run<Decoder>(d, d);
        } else if (magic[0] == '\x17') {
            TraceDat d(argv[1], kAll);
            run<Decoder>(d, d);
        } else if (magic[0] == '\n' && magic[1] != '\n') {
            PftraceDecoder d(argv[1], kAll);
            run(d, d.sink());
        } else {
            TextDecoder d(argv[1], kAll);
            run(d, d.sink());
        }
    } catch (const Error& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
