// SPDX-License-Identifier: GPL-2.0-or-later
// Conformance vectors of state rules and estimators, without a decision. Each answers in the fields of its vector;
// ValueError for a malformed one.
#pragma once

#include "replay/bind/fields.hpp"

namespace rewake::bind {

nb::dict wakee_sequence(const Fields& f);  ///< record_wakee, wake_wide (A3)
nb::dict idle_core_sequence(const std::string& policy, const Fields& f);  ///< set side of has_idle_cores (A7)
nb::dict buddy_sequence(const Fields& f);  ///< wakeup_ref, wakeup_related (B2)
nb::dict irq_sequence(const Fields& f);  ///< intrload and threshold over ticks (B3)
nb::dict irq_threshold(const Fields& f);  ///< threshold of given buckets (B3)
nb::dict scan_estimate(const Fields& f);  ///< SHOULD_SCAN (B1)

}  // namespace rewake::bind
