// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/tasks.hpp"

#include <algorithm>

namespace rewake::decode {

Tasks::Tasks(uint32_t n_cpus) : pages_(kTids >> kPageBits) { reserve_idle(n_cpus); }

void Tasks::reserve_idle(uint32_t n_cpus) {
    for (; n_cpus_ < n_cpus; ++n_cpus_) {
        // (tid 0, generation) stays a key: one idle task a CPU
        all_.push_back({0, n_cpus_, kNoParent, Source::idle, false, kNowhere, kNever, kNever});
        raw_.push_back(kUnnamed);
        comm_.push_back(kNone);
    }
}

uint32_t Tasks::start(uint32_t tid, uint32_t parent, Source source, int64_t ns) {
    auto& page = pages_[tid >> kPageBits];
    if (page == nullptr) {
        page = std::make_unique_for_overwrite<uint32_t[]>(kPage);
        std::fill_n(page.get(), kPage, kNone);
    }
    uint32_t& newest = page[tid & (kPage - 1)];
    const uint32_t generation = newest == kNone ? 0 : all_[newest].generation + 1;
    newest = static_cast<uint32_t>(all_.size());
    all_.push_back({tid, generation, parent, source, false, kNowhere, ns, kNever});
    raw_.push_back(kUnnamed);
    comm_.push_back(kNone);
    return newest;
}

void Tasks::rename(uint32_t task, const CommBytes& name, int64_t ns) {
    const uint32_t id = comms_.id(name);
    if (comm_[task] != id) {
        comm_[task] = id;
        names_.push_back({task, ns, id});
    }
}

}  // namespace rewake::decode
