// SPDX-License-Identifier: GPL-2.0-or-later
// Ring-buffer pages only: what a capture tar holds as raw/cpuN. A whole header (fixtures/fuzz/heads, version 6) comes
// before them, so that no input is spent on a header that is refused.
#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <vector>

#include "collectors/decode/tracedat/tracedat.hpp"
#include "tests/fuzz/target.hpp"

namespace {

constexpr size_t kCpus = 4;    // the heads' own; a head ends with the table of (offset, size) of each
constexpr size_t kPage = 512;  // likewise

std::vector<uint8_t> head(const char* name) {
    std::ifstream in(std::string(REWAKE_FUZZ_HEADS) + name, std::ios::binary);
    std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(in), {}};
    if (bytes.size() < kCpus * 16) {
        std::abort();
    }
    return bytes;
}

void put64(uint8_t* to, uint64_t value, bool big) {
    for (int i = 0; i < 8; ++i) {
        to[big ? 7 - i : i] = static_cast<uint8_t>(value >> (8 * i));
    }
}

/// First byte: bit 0 the byte order, bits 1-2 how many CPUs have pages; the rest is cut evenly, by pages.
void pages_of_cpus(rewake::fuzz::Bytes input, rewake::fuzz::MemoryFile& file) {
    static const std::array<std::vector<uint8_t>, 2> heads = {head("little.head"), head("big.head")};
    const uint8_t how = input.empty() ? uint8_t{0} : input[0];
    const bool big = (how & 1) != 0;
    const size_t cpus = 1 + (how >> 1) % kCpus;
    input = input.subspan(std::min<size_t>(input.size(), 1));
    std::vector<uint8_t> start = heads[big];
    const size_t share = (input.size() / kPage + cpus - 1) / cpus * kPage + (cpus == 1 ? input.size() % kPage : 0);
    for (size_t cpu = 0; cpu < cpus; ++cpu) {
        uint8_t* entry = start.data() + start.size() - 16 * (kCpus - cpu);
        const size_t at = std::min(cpu * share, input.size());
        put64(entry, start.size() + at, big);
        put64(entry + 8, std::min(share, input.size() - at), big);
    }
    file.append(start);
    file.append(input);
}

}  // namespace

REWAKE_FUZZ_TARGET(rewake::decode::TraceDat, pages_of_cpus)
