// SPDX-License-Identifier: GPL-2.0-or-later
// Where the steps of one decision tell why they did what they did. Replay has none of these: a step asks WHY() of step.hpp, and
// without a sink nothing is formatted.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "replay/model/ids.hpp"
#include "replay/model/mask.hpp"
#include "replay/model/topology.hpp"

namespace rewake {

/// CPUs in kernel list form: 0-3,8.
std::string cpulist(const CpuMask& m);

class Reasons {
  public:
    struct Step {
        std::string about;  ///< the step's description, Step::text()
        std::vector<std::string> reasons;  ///< what it told, in order
        bool decided = false;  ///< the decision ended here
    };
    /// Adds one reason: the parts in a row. Numbers and CPUs print as decimals, CPU sets as lists, an LLC as LLC8 by its
    /// lowest CPU.
    template <class... Parts>
    [[gnu::noinline, gnu::cold]] void say(const Topology& t, Parts... parts) {
        std::string s;
        (add(s, t, parts), ...);
        told_.push_back(std::move(s));
    }
    /// Files what was told since the last call under a step that came to its end; its description where that is nothing.
    void close(std::string_view about, bool decided);
    std::vector<Step> take() { return std::exchange(steps_, {}); }

  private:
    static void add(std::string& s, const Topology&, std::string_view text) { s += text; }
    static void add(std::string& s, const Topology&, std::integral auto n) { s += std::to_string(n); }
    static void add(std::string& s, const Topology&, Cpu c) { s += std::to_string(c.v); }
    static void add(std::string& s, const Topology& t, Llc l) { s += "LLC" + std::to_string(t.id_of(l).v); }
    static void add(std::string& s, const Topology&, const CpuMask* m) { s += cpulist(*m); }
    std::vector<Step> steps_;
    std::vector<std::string> told_;
};

}  // namespace rewake
