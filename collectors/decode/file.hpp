// SPDX-License-Identifier: GPL-2.0-or-later
// Reading a file: positioned reads, and a bounded cursor over a part of the file or over a block of memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rewake::decode {

/// A regular file open for reading. Throws Error when it cannot be opened or is not a regular file.
class File {
  public:
    explicit File(const std::string& path);
    /// Takes over an open file; `path` is what errors call it.
    File(int fd, std::string path);
    ~File();
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    /// Reads up to `n` bytes at `offset`; fewer only at the end of the file. Throws Error on an I/O error.
    size_t read_at(uint64_t offset, uint8_t* to, size_t n) const;

    /// Writes behind the end. Throws Error, on a full disk too.
    void append(const uint8_t* from, size_t n);

    [[nodiscard]] uint64_t size() const { return size_; }
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    std::string path_;
    int fd_ = -1;
    uint64_t size_ = 0;
};

/// Sequential reader of header data. Every read is checked against the end; running over it is an Error that names the
/// file, the offset and `what` was being read. Byte order is that of the file.
class Cursor {
  public:
    /// Over [begin, end) of the file, clipped to its size.
    Cursor(const File& file, uint64_t begin, uint64_t end, bool big);
    /// Over a decompressed block; `at` is where the block lies in the file, for messages.
    Cursor(const File& file, std::vector<uint8_t> block, uint64_t at, bool big);

    void set_big(bool big) { big_ = big; }
    void read(uint8_t* to, size_t n, const char* what);
    [[nodiscard]] uint8_t u8(const char* what);
    [[nodiscard]] uint16_t u16(const char* what);
    [[nodiscard]] uint32_t u32(const char* what);
    [[nodiscard]] uint64_t u64(const char* what);
    /// `n` bytes as a string; `n` above `max` is an Error.
    [[nodiscard]] std::string text(uint64_t n, uint64_t max, const char* what);
    /// A NUL-terminated string of at most `max` bytes.
    [[nodiscard]] std::string cstr(size_t max, const char* what);
    void skip(uint64_t n, const char* what);

    [[nodiscard]] uint64_t left() const { return end_ - pos_; }
    /// Position in the file (position of the block for decompressed data).
    [[nodiscard]] uint64_t offset() const { return in_memory_ ? at_ : pos_; }
    [[noreturn]] void bad(const std::string& what) const;

  private:
    const File& file_;
    bool in_memory_, big_;
    uint64_t pos_, end_, at_ = 0;
    std::vector<uint8_t> data_;  // the block, or the read-ahead window of the file
    uint64_t window_ = 0;        // file offset of data_[0]
};

}  // namespace rewake::decode
