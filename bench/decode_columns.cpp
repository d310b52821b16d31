// SPDX-License-Identifier: GPL-2.0-or-later
// performance.md row 1: trace.dat to resident, merged columns of all events. Usage: decode_columns FILE
#include <cstdio>
#include <limits>

#include "collectors/decode/decoder.hpp"

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: decode_columns FILE\n");
        return 2;
    }
    try {
        rewake::decode::Decoder decoder(argv[1], std::numeric_limits<int32_t>::max());
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
