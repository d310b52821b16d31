// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/tracedat/pages.hpp"

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "collectors/decode/bytes.hpp"

namespace rewake::decode {
namespace {

constexpr size_t kBlock = 128 << 10, kAllBlocks = 4 << 20;
constexpr size_t kAllChunks = 256 << 20, kMaxChunk = 64 << 20;
constexpr size_t kPagesInChunk = 10;  // trace-cmd's own chunks; larger ones are accepted where memory allows
constexpr uint64_t kChunkCount = 4;
constexpr size_t kReadAhead = 64 * 1024;

}  // namespace

Budget::Budget(size_t streams, size_t page_size) {
    const size_t k = std::max<size_t>(streams, 1);
    block = std::max(std::min(kBlock, kAllBlocks / k) / page_size, size_t{1}) * page_size;
    chunk = std::max(std::min(kMaxChunk, kAllChunks / k), kPagesInChunk * page_size);
}

void PageSource::FreeContext::operator()(ZSTD_DCtx_s* ctx) const { ZSTD_freeDCtx(ctx); }

PageSource::PageSource(const File& file, const Container& c, const CpuData& data, Budget budget, Problems& problems)
    : file_(&file),
      problems_(&problems),
      compressed_(c.data_compressed),
      big_(c.big_endian),
      cpu_(data.cpu),
      page_size_(c.page_size),
      budget_(budget),
      offset_(data.offset),
      end_(data.offset + data.size),
      cut_(data.cut) {
    if (compressed_) {
        end_ = std::min(end_ + kChunkCount, file.size());  // trace-cmd's size leaves the number of chunks out
        zstd_.reset(ZSTD_createDCtx());
    }
}
PageSource::~PageSource() = default;
PageSource::PageSource(PageSource&&) noexcept = default;

void PageSource::damaged(const char* what) {
    problems_->add(what, place(cpu_, offset_));
    offset_ = end_;
    gap_ = true;
    chunks_left_ = 0;
    packed_.clear();
    packed_pos_ = 0;
}

bool PageSource::refill() {
    pos_ = filled_ = 0;
    return compressed_ ? refill_zstd() : refill_plain();
}

bool PageSource::refill_plain() {
    const size_t want = static_cast<size_t>(std::min<uint64_t>(budget_.block, end_ - offset_));
    if (want == 0) {
        gap_ |= std::exchange(cut_, false);
        return false;
    }
    if (capacity_ < want) {  // the first block is the largest
        block_.reset(new uint8_t[want]);
        capacity_ = want;
    }
    filled_ = file_->read_at(offset_, block_.get(), want);
    if (filled_ < want) {
        problems_->add("the file became shorter while it was read", place(cpu_, offset_));
        end_ = offset_ + filled_;
        cut_ = true;
    }
    block_offset_ = offset_;
    offset_ += filled_;
    return filled_ > 0;
}

/// Makes the next `n` compressed bytes contiguous. False: the data end before.
bool PageSource::packed_bytes(size_t n, const uint8_t** p) {
    if (packed_.size() - packed_pos_ < n) {
        packed_.erase(packed_.begin(), packed_.begin() + static_cast<ptrdiff_t>(packed_pos_));
        packed_pos_ = 0;
        const size_t have = packed_.size();
        if (end_ - offset_ < n - have) {
            return false;
        }
        const size_t want = static_cast<size_t>(std::min<uint64_t>(end_ - offset_, std::max(n - have, kReadAhead)));
        packed_.resize(have + want);
        const size_t got = file_->read_at(offset_, packed_.data() + have, want);
        packed_.resize(have + got);
        offset_ += got;
        if (packed_.size() < n) {
            return false;
        }
    }
    *p = packed_.data() + packed_pos_;
    packed_pos_ += n;
    return true;
}

bool PageSource::refill_zstd() {
    const uint8_t* p = nullptr;
    const auto u32_at = [this](const uint8_t* at) {
        return big_ ? load<uint32_t, true>(at) : load<uint32_t, false>(at);
    };
    if (!started_) {
        started_ = true;
        if (!packed_bytes(4, &p)) {
            damaged("compressed data end before the number of chunks");
            return false;
        }
        chunks_left_ = u32_at(p);
    }
    while (chunks_left_ > 0) {
        block_offset_ = offset_ - (packed_.size() - packed_pos_);
        if (!packed_bytes(8, &p)) {
            damaged("compressed data end before all chunks were read");
            return false;
        }
        const size_t packed = u32_at(p), plain = u32_at(p + 4);
        if (plain > budget_.chunk) {
            damaged("compressed chunk claims to unpack to more than memory allows; rest of the CPU skipped");
            return false;
        }
        if (!packed_bytes(packed, &p)) {
            damaged("compressed data end inside a chunk");
            return false;
        }
        if (capacity_ < plain) {
            block_.reset(new uint8_t[plain]);
            capacity_ = plain;
        }
        const size_t got = ZSTD_decompressDCtx(zstd_.get(), block_.get(), plain, p, packed);
        --chunks_left_;
        if (ZSTD_isError(got) || got != plain) {
            problems_->add("compressed chunk cannot be unpacked, skipped", place(cpu_, block_offset_));
            gap_ = true;
            continue;
        }
        if (plain > 0) {
            filled_ = plain;
            return true;
        }
    }
    // A writer whose size holds the number of chunks, too, leaves as many bytes over.
    if (packed_.size() - packed_pos_ + (end_ - offset_) > kChunkCount) {
        damaged("compressed data go on behind as many chunks as they claim; what follows is skipped");
    }
    return false;
}

}  // namespace rewake::decode
