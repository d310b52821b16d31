// SPDX-License-Identifier: GPL-2.0-or-later
// Layout of a ring-buffer page, from the recording's own events/header_page.
#pragma once

#include <cstdint>
#include <string>

namespace rewake::decode {

/// Byte offsets within a page. The commit word holds the data size and, above it, the missed-events marks.
struct PageLayout {
    uint32_t timestamp = 0;  ///< u64, ns (or clock cycles)
    uint32_t commit = 8;
    uint32_t long_size = 8;  ///< sizeof(long) of the kernel: width of commit and of a stored count of lost events
    uint32_t data = 16;      ///< first record
};

/// `long_size`: of user space, used where the text is missing. Throws Error when the text cannot be right.
PageLayout page_layout(const std::string& header_page, int long_size, uint32_t page_size, const std::string& path);

}  // namespace rewake::decode
