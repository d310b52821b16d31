// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/columns.hpp"

#include <cstdlib>
#include <new>

namespace rewake::decode {

Pool::~Pool() {
    for (const Block& b : free_) {
        std::free(b.p);
    }
}

Pool::Block Pool::take(size_t bytes) {
    {
        const std::lock_guard hold(lock_);
        // The closest fit; a far larger block stays for the column that needs it.
        size_t best = free_.size();
        for (size_t i = 0; i < free_.size(); ++i) {
            if (free_[i].bytes >= bytes && free_[i].bytes / 4 <= bytes &&
                (best == free_.size() || free_[i].bytes < free_[best].bytes)) {
                best = i;
            }
        }
        if (best < free_.size()) {
            const Block b = free_[best];
            free_[best] = free_.back();
            free_.pop_back();
            return b;
        }
    }
    void* p = std::malloc(bytes);
    if (p == nullptr) {
        throw std::bad_alloc();
    }
    return {p, bytes};
}

Pool::Block Pool::grow(Block b, size_t bytes) {
    if (b.bytes >= bytes) {
        return b;
    }
    void* p = std::realloc(b.p, bytes);  // moves page tables, not bytes, above malloc's mmap threshold
    if (p == nullptr) {
        throw std::bad_alloc();
    }
    return {p, bytes};
}

void Pool::give(Block b) {
    if (b.p == nullptr) {
        return;
    }
    const std::lock_guard hold(lock_);
    if (free_.size() < kMost) {
        free_.push_back(b);
    } else {
        std::free(b.p);
    }
}

Batch::~Batch() {
    tables([&](auto& t) {
        t.each([&](const char*, auto& column) {
            pool_->give(column.values);
            pool_->give(column.nulls);
        });
    });
}

}  // namespace rewake::decode
