// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/tasks.hpp"

#include <algorithm>

namespace rewake::decode {

Tasks::Tasks(uint32_t n_cpus)
    : n_cpus_(n_cpus),
      all_(n_cpus, Task{0, 0, kNoParent, Source::idle, false, kNowhere, kNever, kNever}),
      raw_(n_cpus, kUnnamed),
      comm_(n_cpus, kNone),
      pages_(kTids >> kPageBits) {
    for (uint32_t cpu = 0; cpu < n_cpus; ++cpu) {
        all_[cpu].generation = cpu;  // (tid 0, generation) stays a key: one idle task a CPU
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
