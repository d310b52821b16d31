// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/perfdata/unpack.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <zstd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "collectors/decode/error.hpp"

namespace rewake::decode::perf {
namespace {

constexpr size_t kPending = 1 << 20, kOut = 128 << 10;

}  // namespace

Spool::Spool(const std::string& trace, uint64_t most) : trace_(trace), most_(most) {
    const char* folder = std::getenv("TMPDIR");  // without it POSIX's /tmp; mkostemp fills in the X
    std::string name = std::string(folder != nullptr && folder[0] != '\0' ? folder : "/tmp") + "/rewake-XXXXXX";
    const int fd = ::mkostemp(name.data(), O_CLOEXEC);
    if (fd < 0) {
        throw Error(trace + ": cannot be unpacked into " + name + ": " + std::strerror(errno) +
                    "; give room by TMPDIR");
    }
    ::unlink(name.c_str());
    file_ = std::make_unique<File>(fd, trace);
}

void Spool::refuse(const std::string& trace, uint64_t most) {
    throw Error(trace + ": unpacks to more than " + std::to_string(most >> 20) + " MiB; refusing it");
}

uint64_t Spool::add(const uint8_t* p, size_t n) {
    const uint64_t at = size_;
    if (n > most_ - size_) {
        refuse(trace_, most_);
    }
    pending_.insert(pending_.end(), p, p + n);
    size_ += n;
    if (pending_.size() >= kPending) {
        flush();
    }
    return at;
}

void Spool::flush() {
    file_->append(pending_.data(), pending_.size());
    pending_.clear();
}

const File& Spool::file() {
    flush();
    return *file_;
}

void Unpacker::Free::operator()(ZSTD_DCtx_s* ctx) const { ZSTD_freeDCtx(ctx); }

Unpacker::Unpacker() : zstd_(ZSTD_createDCtx()), out_(kOut) {}

bool Unpacker::step(const uint8_t* p, size_t n, size_t& at, size_t& got) {
    ZSTD_inBuffer in{p, n, at};
    ZSTD_outBuffer out{out_.data(), out_.size(), 0};
    const size_t before = at;
    const size_t left = ZSTD_decompressStream(zstd_.get(), &out, &in);
    at = in.pos;
    got = out.pos;
    return !ZSTD_isError(left) && (at > before || got > 0 || at == n);
}

}  // namespace rewake::decode::perf
