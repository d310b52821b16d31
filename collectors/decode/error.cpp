// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/error.hpp"

namespace rewake::decode {

void fail(const std::string& path, uint64_t offset, const std::string& what) {
    throw Error(path + ": offset " + std::to_string(offset) + ": " + what);
}

void Problems::add(std::string_view what, std::string_view where) {
    for (Entry& e : entries_) {
        if (e.what == what) {
            ++e.n;
            return;
        }
    }
    if (entries_.size() < kMaxKinds) {
        entries_.push_back({std::string(what), std::string(where), 1});
    } else {
        ++others_;
    }
}

std::vector<std::string> Problems::lines() const {
    std::vector<std::string> out;
    for (const Entry& e : entries_) {
        std::string line = e.what;
        if (e.n > 1) {
            line += ": " + std::to_string(e.n) + " times, first at ";
        } else if (!e.where.empty()) {
            line += ": ";
        }
        out.push_back(line + e.where);
    }
    if (others_ > 0) {
        out.push_back(std::to_string(others_) + " further problems of other kinds");
    }
    return out;
}

std::string place(uint32_t cpu, uint64_t offset) {
    return "CPU " + std::to_string(cpu) + ", offset " + std::to_string(offset);
}

}  // namespace rewake::decode
