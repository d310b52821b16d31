// SPDX-License-Identifier: GPL-2.0-or-later
// performance.md row 1a: one streaming pass that keeps nothing: events by kind and a histogram of wake-to-run latency.
// The same container, ring walk, formats and merge as the decoder. Usage: decode_stream FILE
#include <array>
#include <bit>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "collectors/decode/tasks.hpp"
#include "collectors/decode/trace.hpp"

namespace rewake::decode {
namespace {

class Latency {
  public:
    explicit Latency(const TraceFile& trace)
        : trace_(trace),
          counts_(trace.formats.size()),
          woken_(static_cast<uint64_t*>(std::calloc(kTids, sizeof(uint64_t)))) {
        if (woken_ == nullptr) {
            throw std::bad_alloc();
        }
    }

    template <bool Big>
    void operator()(const Stream<Big>& s) {
        if (s.record() == nullptr) {
            return;
        }
        const uint32_t index = trace_.formats.index(s.type());
        ++counts_[index];
        const Plan& plan = trace_.formats.plan(index);
        if (s.length() < plan.least) {
            return;
        }
        if (plan.kind == Kind::waking) {
            woken(value<Big>(plan.field[slot::pid], s.record()), s.ts());
        } else if (plan.kind == Kind::wakeup && plan.variant == 1) {
            woken(value<Big>(plan.field[slot::pid], s.record()), s.ts());
        } else if (plan.kind == Kind::switch_) {
            const auto tid = static_cast<uint64_t>(value<Big>(plan.field[slot::next_pid], s.record()));
            if (tid < kTids && woken_[tid] != 0) {
                const auto ns = static_cast<uint64_t>(trace_.ns(s.ts()) - trace_.ns(woken_[tid]));
                ++histogram_[static_cast<size_t>(std::bit_width(ns))];
                woken_[tid] = 0;
            }
        }
    }

    void print() const {
        uint64_t events = 0;
        for (size_t i = 0; i < counts_.size(); ++i) {
            events += counts_[i];
            if (counts_[i] > 0 && i < trace_.formats.names().size()) {
                std::printf("%-24s %" PRIu64 "\n", trace_.formats.names()[i].c_str(), counts_[i]);
            }
        }
        std::printf("%-24s %" PRIu64 "\n", "events", events);
        for (size_t b = 0; b < histogram_.size(); ++b) {
            if (histogram_[b] > 0) {
                std::printf("wake-to-run < %" PRIu64 " ns: %" PRIu64 "\n", uint64_t{1} << b, histogram_[b]);
            }
        }
    }

  private:
    void woken(int64_t tid, uint64_t ts) {
        if (static_cast<uint64_t>(tid) < kTids) {
            woken_[static_cast<size_t>(tid)] = ts;
        }
    }

    const TraceFile& trace_;
    std::vector<uint64_t> counts_;
    std::array<uint64_t, 65> histogram_{};
    // By tid: time of the pending wakeup, 0 when there is none. Zero pages that are never touched cost nothing.
    std::unique_ptr<uint64_t[], decltype([](uint64_t* p) { std::free(p); })> woken_;
};

template <bool Big>
void pass(TraceFile& trace) {
    Records<Big> records(trace);
    Latency latency(trace);
    records.run([&](const Stream<Big>& s) {
        latency(s);
        return true;
    });
    latency.print();
}

}  // namespace
}  // namespace rewake::decode

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: decode_stream FILE\n");
        return 2;
    }
    try {
        rewake::decode::TraceFile trace(argv[1]);
        trace.container.big_endian ? rewake::decode::pass<true>(trace) : rewake::decode::pass<false>(trace);
        return 0;
    } catch (const rewake::decode::Error& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
