// SPDX-License-Identifier: GPL-2.0-or-later
// A trace.dat, decoded.
#pragma once

#include <variant>

#include "collectors/decode/decoder.hpp"
#include "collectors/decode/trace.hpp"

namespace rewake::decode {

class TraceDat final : private TraceFile, public Decoder {
  public:
    /// `most`: events in a batch (at least 2). Throws Error.
    TraceDat(const std::string& path, size_t most);

    using Decoder::problems;
    [[nodiscard]] const TraceFile& trace() const { return *this; }
    [[nodiscard]] std::vector<std::string> missing() const override;

  private:
    bool fill(Batch& b, int64_t end) override;

    std::variant<std::monostate, Records<false>, Records<true>> records_;
};

}  // namespace rewake::decode
