// SPDX-License-Identifier: GPL-2.0-or-later
// performance.md rows 1 and 3: a trace.dat or perf.data to resident, merged columns of all events. Usage:
// decode_columns FILE
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>

#include "collectors/decode/perfdata/perfdata.hpp"
#include "collectors/decode/tracedat/tracedat.hpp"

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: decode_columns FILE\n");
        return 2;
    }
    try {
        constexpr size_t kAll = std::numeric_limits<int32_t>::max();
        char magic[8] = {};
        if (std::FILE* file = std::fopen(argv[1], "rb"); file != nullptr) {
            (void)!std::fread(magic, 1, sizeof magic, file);
            std::fclose(file);
        }
        std::unique_ptr<rewake::decode::Decoder> opened;
        if (std::memcmp(magic, "PERFILE2", sizeof magic) == 0) {
            opened = std::make_unique<rewake::decode::perf::PerfData>(argv[1], kAll);
        } else {
            opened = std::make_unique<rewake::decode::TraceDat>(argv[1], kAll);
        }
        rewake::decode::Decoder& decoder = *opened;
        size_t rows = 0;
        const auto batch = decoder.next();
        if (batch != nullptr) {
            for (const size_t n : batch->rows()) {
                rows += n;
            }
        }
        std::printf("events %llu rows %zu tasks %zu\n", static_cast<unsigned long long>(decoder.events), rows,
                    decoder.tasks().all().size());
        std::fflush(stdout);
        std::quick_exit(0);  // the peers do not give their memory back piece by piece either
    } catch (const rewake::decode::Error& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
