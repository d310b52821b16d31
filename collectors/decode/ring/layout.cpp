// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/ring/layout.hpp"

#include <cstdlib>

#include "collectors/decode/error.hpp"

namespace rewake::decode {
namespace {

struct Field {
    int offset = -1, size = 0;
};

/// Finds "field: TYPE name; offset:N; size:N;" in the text. libtraceevent reads it too but hands out neither offset.
Field find_field(const std::string& text, const std::string& name) {
    const size_t at = text.find(" " + name + ";");
    const size_t offset = text.find("offset:", at), size = text.find("size:", at);
    if (at == std::string::npos || offset == std::string::npos || size == std::string::npos) {
        return {};
    }
    return {std::atoi(text.c_str() + offset + 7), std::atoi(text.c_str() + size + 5)};
}

}  // namespace

PageLayout page_layout(const std::string& header_page, int long_size, uint32_t page_size, const std::string& path) {
    PageLayout layout;
    if (header_page.empty()) {
        layout.long_size = static_cast<uint32_t>(long_size);
        layout.data = 8 + layout.long_size;
        return layout;
    }
    const Field stamp = find_field(header_page, "timestamp"), commit = find_field(header_page, "commit"),
                data = find_field(header_page, "data");
    const auto inside = [&](const Field& f) {
        return f.offset >= 0 && f.offset < 256 && static_cast<uint32_t>(f.offset) + 8 <= page_size;
    };
    if (!inside(stamp) || !inside(commit) || !inside(data) || stamp.size != 8 ||
        (commit.size != 4 && commit.size != 8) || data.offset < commit.offset + commit.size ||
        data.offset < stamp.offset + 8) {
        throw Error(path + ": events/header_page does not describe a ring-buffer page; the file is damaged");
    }
    layout.timestamp = static_cast<uint32_t>(stamp.offset);
    layout.commit = static_cast<uint32_t>(commit.offset);
    layout.long_size = static_cast<uint32_t>(commit.size);
    layout.data = static_cast<uint32_t>(data.offset);
    return layout;
}

}  // namespace rewake::decode
