// SPDX-License-Identifier: GPL-2.0-or-later
// Format texts of tracefs (events/SYSTEM/EVENT/format), checked before libtraceevent sees them: its parser crashes on
// damaged ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rewake::decode {

/// A checked format text.
struct CheckedFormat {
    std::string name;  ///< of the event
    uint16_t id;       ///< common_type of its records
    std::string text;  ///< the same fields again, well formed throughout, with an empty print format
    bool fields_ok;    ///< false: a field line is damaged and `text` is not to be used
};

/// Nothing when not even the event's name and number can be read.
std::optional<CheckedFormat> check_format(const std::string& text);

}  // namespace rewake::decode
