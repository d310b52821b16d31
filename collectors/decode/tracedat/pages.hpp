// SPDX-License-Identifier: GPL-2.0-or-later
// The ring-buffer pages of one CPU, in file order, through one re-used buffer. Plain data are read() in blocks,
// compressed data chunk by chunk; memory is bounded by `Budget`, whatever the file claims.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collectors/decode/error.hpp"
#include "collectors/decode/file.hpp"
#include "collectors/decode/tracedat/container.hpp"

struct ZSTD_DCtx_s;

namespace rewake::decode {

/// Buffer sizes of all streams of a file. Small blocks stay in the cache between read() and decode: with 256 CPUs a
/// total of 4 MiB took two thirds of the time of 32 MiB, and one CPU is as fast with 128 KiB as with 1 MiB.
struct Budget {
    size_t block;  ///< bytes of plain data read at once, a multiple of the page size
    size_t chunk;  ///< most bytes that one compressed chunk may unpack to

    Budget(size_t streams, size_t page_size);
};

class PageSource {
  public:
    PageSource(const File& file, const Container& c, const CpuData& data, Budget budget, Problems& problems);
    ~PageSource();
    PageSource(PageSource&&) noexcept;

    struct Page {
        const uint8_t* p;  ///< valid until the next call
        size_t n;  ///< page size, less only for a page that the end of the file cut off; 0: no more pages
        uint64_t offset;  ///< in the file (of the chunk, when compressed)
        bool gap;  ///< data before this page could not be read
    };
    /// Throws Error on an I/O error only; damage ends the CPU's data and is counted.
    Page next() {
        if (pos_ < filled_) [[likely]] {
            const size_t n = filled_ - pos_ < page_size_ ? filled_ - pos_ : page_size_;
            const Page page{block_.get() + pos_, n, block_offset_ + (compressed_ ? 0 : pos_), gap_};
            pos_ += n;
            gap_ = false;
            return page;
        }
        if (refill()) {
            return next();
        }
        const bool gap = gap_;
        gap_ = false;
        return {nullptr, 0, offset_, gap};
    }
    [[nodiscard]] uint32_t cpu() const { return cpu_; }

  private:
    bool refill();
    bool refill_plain();
    bool refill_zstd();
    void damaged(const char* what);
    bool packed_bytes(size_t n, const uint8_t** p);

    const File* file_;
    Problems* problems_;
    bool compressed_, big_;
    uint32_t cpu_;
    size_t page_size_;
    Budget budget_;
    uint64_t offset_, end_;  // not yet read part of the CPU's data
    std::unique_ptr<uint8_t[]> block_;
    size_t capacity_ = 0, filled_ = 0, pos_ = 0;
    uint64_t block_offset_ = 0;

    struct FreeContext {
        void operator()(ZSTD_DCtx_s* ctx) const;
    };
    std::unique_ptr<ZSTD_DCtx_s, FreeContext> zstd_;
    std::vector<uint8_t> packed_;  // read-ahead of compressed bytes
    size_t packed_pos_ = 0;
    uint32_t chunks_left_ = 0;
    bool started_ = false, gap_ = false;
    bool cut_;  // there was more behind end_: a gap, to be told there
};

}  // namespace rewake::decode
