// SPDX-License-Identifier: GPL-2.0-or-later
// Rows by TaskId of which only some are there: those of tasks that nobody has touched yet, and of tasks that are gone, take no
// memory, and are not copied. A recording may have any number of tasks, few of which are alive at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace rewake {

/// A row that is not there reads as the fresh one, and is there once it may be written.
template <class T>
class Paged {
  public:
    static constexpr size_t kPage = 32;  ///< rows that come and go together

    explicit Paged(size_t n = 0, T fresh = T{}) : fresh_(std::move(fresh)) { resize(n); }
    Paged(const Paged& o) : fresh_(o.fresh_), size_(o.size_) {
        pages_.resize(o.pages_.size());
        for (size_t k = 0; k < pages_.size(); ++k)
            if (o.pages_[k]) pages_[k] = copied(o.pages_[k]);
    }
    Paged(Paged&& o) noexcept
        : pages_(std::exchange(o.pages_, {})), fresh_(std::move(o.fresh_)), size_(std::exchange(o.size_, 0)) {}
    Paged& operator=(Paged o) noexcept {
        std::swap(pages_, o.pages_), std::swap(fresh_, o.fresh_), std::swap(size_, o.size_);
        return *this;
    }
    ~Paged() {
        for (size_t k = 0; k < pages_.size(); ++k) drop(k);
    }

    size_t size() const { return size_; }
    /// Never smaller. Rows stay where they are.
    void resize(size_t n) {
        size_ = n;
        pages_.resize((n + kPage - 1) / kPage);
    }
    // Else the compiler stops inlining what looks at many rows.
    [[gnu::always_inline]] T& operator[](size_t i) {
        T* const page = pages_[i / kPage];
        return page ? page[i % kPage] : make(i / kPage)[i % kPage];
    }
    [[gnu::always_inline]] const T& operator[](size_t i) const {
        const T* page = pages_[i / kPage];
        return page ? page[i % kPage] : fresh_;
    }
    /// Of a row that has been written to.
    [[gnu::always_inline]] T& written(size_t i) { return pages_[i / kPage][i % kPage]; }
    [[gnu::always_inline]] const T& written(size_t i) const { return pages_[i / kPage][i % kPage]; }
    /// It is looked at soon, `at` bytes from its beginning.
    [[gnu::always_inline]] void expect(size_t i, size_t at = 0) const {
        __builtin_prefetch(
            reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(pages_[i / kPage]) + i % kPage * sizeof(T) + at));
    }
    size_t pages() const { return pages_.size(); }
    bool has_page(size_t k) const { return k < pages_.size() && pages_[k]; }
    /// Its rows are fresh again.
    void drop(size_t k) {
        if (!has_page(k)) return;
        std::destroy_n(pages_[k], kPage);
        std::allocator<T>().deallocate(std::exchange(pages_[k], nullptr), kPage);
    }
    /// f(number, row) of those that are there, ascending.
    template <class F>
    void each(F f) {
        for (size_t k = 0; k < pages_.size(); ++k)
            for (size_t i = 0; pages_[k] && i < kPage && k * kPage + i < size_; ++i)
                f(static_cast<uint32_t>(k * kPage + i), pages_[k][i]);
    }
    template <class F>
    void each(F f) const {
        for (size_t k = 0; k < pages_.size(); ++k)
            for (size_t i = 0; pages_[k] && i < kPage && k * kPage + i < size_; ++i)
                f(static_cast<uint32_t>(k * kPage + i), std::as_const(pages_[k][i]));
    }

  private:
    [[gnu::cold, gnu::noinline]] T* make(size_t k) {
        pages_[k] = std::allocator<T>().allocate(kPage);
        std::uninitialized_fill_n(pages_[k], kPage, fresh_);
        return pages_[k];
    }
    static T* copied(const T* from) {
        T* page = std::allocator<T>().allocate(kPage);
        std::uninitialized_copy_n(from, kPage, page);
        return page;
    }
    std::vector<T*> pages_;  ///< nullptr: all of it fresh
    T fresh_;
    size_t size_ = 0;
};

}  // namespace rewake
