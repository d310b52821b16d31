// SPDX-License-Identifier: GPL-2.0-or-later
// PERF_RECORD_COMPRESSED: one zstd stream cut into records. It is unpacked once, into a file without a name, because a
// merge needs several places of it at the same time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectors/decode/file.hpp"

struct ZSTD_DCtx_s;

namespace rewake::decode::perf {

/// A temporary file that is written once, then read.
class Spool {
  public:
    /// In TMPDIR, else /tmp. `most`: bytes that it may grow to. Throws Error.
    Spool(const std::string& trace, uint64_t most);
    /// Throws the Error of a trace that unpacks to more than `most` bytes.
    [[noreturn]] static void refuse(const std::string& trace, uint64_t most);

    /// Offset of the bytes in the file.
    uint64_t add(const uint8_t* p, size_t n);
    /// For reading, all that was added.
    [[nodiscard]] const File& file();

  private:
    void flush();

    std::string trace_;
    std::unique_ptr<File> file_;
    uint64_t size_ = 0, most_;
    std::vector<uint8_t> pending_;
};

class Unpacker {
  public:
    Unpacker();

    /// Unpacks one piece of the stream; `visit(p, n)` takes each part of the result. False: the stream is damaged, and
    /// nothing after this can be unpacked.
    template <class Visit>
    bool run(const uint8_t* p, size_t n, Visit&& visit) {
        size_t at = 0;
        while (true) {
            size_t got = 0;
            if (!step(p, n, at, got)) {
                return false;
            }
            if (got > 0) {
                visit(out_.data(), got);
            }
            if (at == n && got < out_.size()) {
                return true;
            }
        }
    }

  private:
    bool step(const uint8_t* p, size_t n, size_t& at, size_t& got);

    struct Free {
        void operator()(ZSTD_DCtx_s* ctx) const;
    };
    std::unique_ptr<ZSTD_DCtx_s, Free> zstd_;
    std::vector<uint8_t> out_;
};

}  // namespace rewake::decode::perf
