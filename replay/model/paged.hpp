// SPDX-License-Identifier: GPL-2.0-or-later
// Rows by TaskId of which only some are there: those of tasks that nobody has touched yet, and of tasks that are gone, take no
// memory, and are not copied. A recording may have any number of tasks, few of which are alive at a time. Where they are few
// altogether, as in nearly all recordings, all rows lie in one piece: to look one up is the engine's most frequent step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace rewake {

/// A row that is not there reads as the fresh one, and is there once it may be written. Up to `kWhole` rows are all there.
template <class T, size_t kWhole = 4096>
class Paged {
  public:
    static constexpr size_t kPage = 32;  ///< rows that come and go together

    explicit Paged(size_t n = 0, T fresh = T{}) : fresh_(std::move(fresh)) { resize(n); }
    Paged(const Paged& o) : fresh_(o.fresh_), size_(o.size_) {
        if (o.whole_) whole_ = copied(o.whole_, size_);
        pages_.resize(o.pages_.size());
        for (size_t k = 0; k < pages_.size(); ++k)
            if (o.pages_[k]) pages_[k] = copied(o.pages_[k], kPage);
    }
    Paged(Paged&& o) noexcept : fresh_(o.fresh_) { swap(o); }
    Paged& operator=(Paged o) noexcept {
        swap(o);
        return *this;
    }
    ~Paged() {
        release(whole_, size_);
        for (T*& page : pages_) release(page, kPage);
    }

    size_t size() const { return size_; }
    /// Never smaller. Rows may move.
    void resize(size_t n) {
        if (n <= kWhole && pages_.empty()) {
            T* const more = std::allocator<T>().allocate(n);
            std::uninitialized_copy_n(whole_, size_, more);
            std::uninitialized_fill_n(more + size_, n - size_, fresh_);
            release(whole_, size_);
            whole_ = more;
        } else {
            pages_.resize((n + kPage - 1) / kPage);
            for (size_t i = 0; whole_ && i < size_; ++i) make(i / kPage)[i % kPage] = std::move(whole_[i]);
            release(whole_, size_);
        }
        size_ = n;
    }
    // Else the compiler stops inlining what looks at many rows.
    [[gnu::always_inline]] T& operator[](size_t i) {
        if (whole_) [[likely]]
            return whole_[i];
        T* const page = pages_[i / kPage];
        if (!page) [[unlikely]]
            return make(i / kPage)[i % kPage];
        return page[i % kPage];
    }
    [[gnu::always_inline]] const T& operator[](size_t i) const {
        if (whole_) [[likely]]
            return whole_[i];
        const T* const page = pages_[i / kPage];
        return page ? page[i % kPage] : fresh_;
    }
    /// It is looked at soon, `at` bytes from its beginning.
    [[gnu::always_inline]] void expect(size_t i, size_t at = 0) const {
        const T* const rows = whole_ ? whole_ + i / kPage * kPage : pages_[i / kPage];
        if (rows) __builtin_prefetch(reinterpret_cast<const char*>(rows + i % kPage) + at);
    }
    size_t pages() const { return (size_ + kPage - 1) / kPage; }
    bool has_page(size_t k) const { return k < pages() && (whole_ || pages_[k]); }
    /// Its rows are fresh again.
    void drop(size_t k) {
        if (!has_page(k)) return;
        if (whole_)
            std::fill(whole_ + k * kPage, whole_ + std::min((k + 1) * kPage, size_), fresh_);
        else
            release(pages_[k], kPage);
    }
    /// f(number, row) of those that are there, ascending.
    template <class F>
    void each(F f) {
        for (size_t k = 0; k < pages(); ++k)
            for (size_t i = k * kPage; has_page(k) && i < std::min((k + 1) * kPage, size_); ++i)
                f(static_cast<uint32_t>(i), (*this)[i]);
    }
    template <class F>
    void each(F f) const {
        for (size_t k = 0; k < pages(); ++k)
            for (size_t i = k * kPage; has_page(k) && i < std::min((k + 1) * kPage, size_); ++i)
                f(static_cast<uint32_t>(i), (*this)[i]);
    }

  private:
    [[gnu::noinline]] T* make(size_t k) {
        if (!pages_[k]) {
            pages_[k] = std::allocator<T>().allocate(kPage);
            std::uninitialized_fill_n(pages_[k], kPage, fresh_);
        }
        return pages_[k];
    }
    static T* copied(const T* from, size_t n) {
        T* rows = std::allocator<T>().allocate(n);
        std::uninitialized_copy_n(from, n, rows);
        return rows;
    }
    static void release(T*& rows, size_t n) {
        if (!rows) return;
        std::destroy_n(rows, n);
        std::allocator<T>().deallocate(std::exchange(rows, nullptr), n);
    }
    void swap(Paged& o) noexcept {
        std::swap(whole_, o.whole_), std::swap(pages_, o.pages_), std::swap(fresh_, o.fresh_),
            std::swap(size_, o.size_);
    }
    T* whole_ = nullptr;
    std::vector<T*> pages_;  ///< where there is no such; nullptr: all of it fresh
    T fresh_;
    size_t size_ = 0;
};

}  // namespace rewake
