// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "collectors/decode/bytes.hpp"
#include "collectors/decode/error.hpp"

namespace rewake::decode {
namespace {

constexpr size_t kWindow = 64 * 1024;

}  // namespace

File::File(const std::string& path) : path_(path) {
    // O_NONBLOCK: opening a FIFO must fail the check below instead of waiting for a writer.
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd_ < 0) {
        throw Error(path + ": cannot open: " + std::strerror(errno));
    }
    struct stat st{};
    if (::fstat(fd_, &st) != 0 || !S_ISREG(st.st_mode)) {
        ::close(fd_);
        throw Error(path + ": not a regular file; give the file that the recorder wrote");
    }
    size_ = static_cast<uint64_t>(st.st_size);
}

File::File(int fd, std::string path) : path_(std::move(path)), fd_(fd) {
    struct stat st{};
    if (::fstat(fd_, &st) == 0) {
        size_ = static_cast<uint64_t>(st.st_size);
    }
}

File::~File() { ::close(fd_); }

size_t File::read_at(uint64_t offset, uint8_t* to, size_t n) const {
    size_t done = 0;
    while (done < n && offset + done < size_) {
        const ssize_t got = ::pread(fd_, to + done, n - done, static_cast<off_t>(offset + done));
        if (got > 0) {
            done += static_cast<size_t>(got);
        } else if (got == 0) {
            break;
        } else if (errno != EINTR) {
            fail(path_, offset + done, std::string("cannot read: ") + std::strerror(errno));
        }
    }
    return done;
}

void File::append(const uint8_t* from, size_t n) {
    for (size_t done = 0; done < n;) {
        const ssize_t put = ::pwrite(fd_, from + done, n - done, static_cast<off_t>(size_));
        if (put > 0) {
            done += static_cast<size_t>(put);
            size_ += static_cast<uint64_t>(put);
        } else if (put == 0 || errno != EINTR) {
            throw Error(path_ + ": cannot write what it unpacks to: " + std::strerror(errno) + "; give room by TMPDIR");
        }
    }
}

Cursor::Cursor(const File& file, uint64_t begin, uint64_t end, bool big)
    : file_(file), in_memory_(false), big_(big), pos_(std::min(begin, file.size())), end_(std::min(end, file.size())) {
    end_ = std::max(end_, pos_);
}

Cursor::Cursor(const File& file, std::vector<uint8_t> block, uint64_t at, bool big)
    : file_(file), in_memory_(true), big_(big), pos_(0), end_(block.size()), at_(at), data_(std::move(block)) {}

void Cursor::bad(const std::string& what) const { fail(file_.path(), offset(), what); }

void Cursor::read(uint8_t* to, size_t n, const char* what) {
    if (n > left()) {
        bad(std::string("file ends inside ") + what + "; it is truncated or damaged, record or copy it again");
    }
    if (in_memory_) {
        std::memcpy(to, data_.data() + pos_, n);
    } else if (n > kWindow) {
        if (file_.read_at(pos_, to, n) != n) {
            bad(std::string("file ends inside ") + what);
        }
    } else {
        if (pos_ < window_ || pos_ + n > window_ + data_.size()) {
            data_.resize(kWindow);
            data_.resize(file_.read_at(pos_, data_.data(), static_cast<size_t>(std::min<uint64_t>(kWindow, left()))));
            window_ = pos_;
            if (data_.size() < n) {
                bad(std::string("file ends inside ") + what);
            }
        }
        std::memcpy(to, data_.data() + (pos_ - window_), n);
    }
    pos_ += n;
}

uint8_t Cursor::u8(const char* what) {
    uint8_t v = 0;
    read(&v, 1, what);
    return v;
}

uint16_t Cursor::u16(const char* what) {
    uint8_t b[2];
    read(b, sizeof b, what);
    return big_ ? load<uint16_t, true>(b) : load<uint16_t, false>(b);
}

uint32_t Cursor::u32(const char* what) {
    uint8_t b[4];
    read(b, sizeof b, what);
    return big_ ? load<uint32_t, true>(b) : load<uint32_t, false>(b);
}

uint64_t Cursor::u64(const char* what) {
    uint8_t b[8];
    read(b, sizeof b, what);
    return big_ ? load<uint64_t, true>(b) : load<uint64_t, false>(b);
}

std::string Cursor::text(uint64_t n, uint64_t max, const char* what) {
    if (n > max) {
        bad(std::string(what) + " claims " + std::to_string(n) + " bytes (at most " + std::to_string(max) +
            " are possible); the file is damaged");
    }
    if (n > left()) {
        bad(std::string("file ends inside ") + what + "; it is truncated or damaged, record or copy it again");
    }
    std::string out(static_cast<size_t>(n), '\0');
    read(reinterpret_cast<uint8_t*>(out.data()), out.size(), what);
    return out;
}

std::string Cursor::cstr(size_t max, const char* what) {
    std::string out;
    while (true) {
        const char c = static_cast<char>(u8(what));
        if (c == '\0') {
            return out;
        }
        if (out.size() == max) {
            bad(std::string(what) + " has no end within " + std::to_string(max) + " bytes; the file is damaged");
        }
        out.push_back(c);
    }
}

void Cursor::skip(uint64_t n, const char* what) {
    if (n > left()) {
        bad(std::string("file ends inside ") + what + "; it is truncated or damaged, record or copy it again");
    }
    pos_ += n;
}

}  // namespace rewake::decode
