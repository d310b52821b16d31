// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/steps/reasons.hpp"

namespace rewake {

std::string cpulist(const CpuMask& m) {
    std::string s;
    for (int c = 0; c < kMaxCpus; ++c) {
        if (!m.test(Cpu(static_cast<uint16_t>(c)))) continue;
        int last = c;
        while (last + 1 < kMaxCpus && m.test(Cpu(static_cast<uint16_t>(last + 1)))) ++last;
        if (!s.empty()) s += ',';
        s += std::to_string(c);
        if (last > c) (s += '-') += std::to_string(last);
        c = last;
    }
    return s;
}

void Reasons::close(std::string_view about, bool decided) {
    if (told_.empty()) told_.push_back(std::string(about) + (decided ? "" : " (goes on)"));
    steps_.push_back({std::string(about), std::exchange(told_, {}), decided});
}

}  // namespace rewake
