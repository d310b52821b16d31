// SPDX-License-Identifier: GPL-2.0-or-later
// Time that interrupt handlers had of the CPUs (policies.md D2.1): taken from whoever runs there, when it was recorded.
#pragma once

#include <cstddef>
#include <vector>

#include "replay/model/ids.hpp"

namespace rewake::closed {

struct Interrupt {
    Ns from = 0, to = 0;
    Cpu cpu{};
};

class Interrupts {
  public:
    Interrupts() = default;
    /// `all` by time; those of one CPU must not overlap (std::invalid_argument).
    Interrupts(size_t cpus, const std::vector<Interrupt>& all);
    /// How much of [from, to) handlers had of `c`, ns.
    Ns within(Cpu c, Ns from, Ns to) const;
    /// Those that have some of [from, to), CPU after CPU.
    std::vector<Interrupt> between(Ns from, Ns to) const;

    size_t n_cpus() const { return cpus_.size(); }  ///< 0: there are none

  private:
    struct Handler {
        Ns from = 0, to = 0;
        Ns before = 0;  ///< time of all earlier ones of the CPU
    };
    std::vector<std::vector<Handler>> cpus_;
};

}  // namespace rewake::closed
