// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/closed/stalls.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace rewake::closed {

namespace {
constexpr Ns kTogether = 20'000;
constexpr size_t kSeveral = 3;  ///< tasks
constexpr size_t kFewest = 5;  ///< answers, before it is known what they take as a rule

using Kind = std::pair<uint32_t, bool>;  ///< by task and context: a timer's softirq is no answer of a disk
Kind kind(const Stim& s) { return {s.p.v, s.hardirq}; }

/// What the answers of each kind take as a rule; none where there are too few.
std::map<Kind, Ns> usual_delays(const Script& script) {
    std::map<Kind, std::vector<int64_t>> delays;
    for (const Stim& s : script.stims)
        if (s.device && s.ends) delays[kind(s)].push_back(s.delay);
    std::map<Kind, Ns> out;
    for (auto& [of, all] : delays)
        if (all.size() >= kFewest) out[of] = middle(all);
    return out;
}
}  // namespace

void find_stalls(Script& script) {
    const std::map<Kind, Ns> usual = usual_delays(script);
    if (usual.size() < kSeveral) return;
    std::vector<std::pair<Stim*, Ns>> together;  // and how long they take as a rule
    const auto close = [&] {
        std::vector<uint32_t> tasks;
        for (const auto& [s, _] : together) tasks.push_back(s->p.v);
        std::ranges::sort(tasks);
        if (static_cast<size_t>(std::ranges::unique(tasks).begin() - tasks.begin()) >= kSeveral) {
            Stall& stall = script.stalls.emplace_back();
            stall.from = stall.to = together.back().first->ts;
            for (const auto& [s, takes] : together) {
                stall.from = std::min(stall.from, s->ts - s->delay);
                stall.answers.push_back({s->p, s->ts});
                s->delay = takes;
            }
        }
        together.clear();
    };
    for (Stim& s : script.stims) {
        if (!s.device || !s.ends) continue;
        const auto takes = usual.find(kind(s));
        if (takes == usual.end() || s.delay <= std::max(2 * takes->second, takes->second + kTogether)) continue;
        if (!together.empty() && s.ts - together.back().first->ts > kTogether) close();
        together.emplace_back(&s, takes->second);
    }
    close();
}

Ns answered(const std::vector<Stall>& stalls, TaskId t, Ns due) {
    for (auto s = std::ranges::lower_bound(stalls, due, {}, &Stall::to); s != stalls.end() && s->from <= due; ++s)
        for (const Stall::Answer& a : s->answers)
            if (a.p == t && a.ts > due) return a.ts;
    return due;
}

}  // namespace rewake::closed
