// SPDX-License-Identifier: GPL-2.0-or-later
// Errors and counted degradation of the decoders. An Error ends the decode; a problem is counted and the decode goes
// on.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace rewake::decode {

/// A trace that cannot be read: one line with file, offset, what is wrong and what to do.
class Error : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// Throws Error("PATH: offset N: what").
[[noreturn]] void fail(const std::string& path, uint64_t offset, const std::string& what);

/// Counted degradation. One entry a kind of problem, so the list is bounded whatever the file holds.
class Problems {
  public:
    static constexpr size_t kMaxKinds = 64;

    /// `what` names the kind ("records with ..."); the first place it was seen is kept. O(kinds).
    void add(std::string_view what, std::string_view where);

    /// One line a kind: "what: N times, first at where".
    [[nodiscard]] std::vector<std::string> lines() const;

  private:
    struct Entry {
        std::string what, where;
        uint64_t n;
    };
    std::vector<Entry> entries_;
    uint64_t others_ = 0;
};

/// Losses just before a record.
enum class Loss : uint8_t { none, unknown, counted };

/// "CPU 3, offset 4096", for Problems::add.
std::string place(uint32_t cpu, uint64_t offset);

}  // namespace rewake::decode
