// SPDX-License-Identifier: GPL-2.0-or-later
// A libFuzzer target is one line: REWAKE_FUZZ_TARGET(Decoder, bytes_to_file). `Decoder` is any of collectors/decode:
// made from (path, events in a batch), next() until null, then what the Python module asks for at the end: of itself, or
// of its sink(). Its Error is an answer; everything else that comes out of it is a finding.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "collectors/decode/error.hpp"

namespace rewake::fuzz {

using Bytes = std::span<const uint8_t>;

/// A file in memory that is written anew for each input: decoders take a path.
class MemoryFile {
  public:
    MemoryFile() : fd_(memfd_create("fuzz", MFD_CLOEXEC)), path_("/proc/self/fd/" + std::to_string(fd_)) { clear(); }
    ~MemoryFile() { ::close(fd_); }
    MemoryFile(const MemoryFile&) = delete;
    MemoryFile& operator=(const MemoryFile&) = delete;

    void clear() { must(fd_ >= 0 && ::ftruncate(fd_, 0) == 0 && ::lseek(fd_, 0, SEEK_SET) == 0); }
    void append(Bytes b) { must(::write(fd_, b.data(), b.size()) == static_cast<ssize_t>(b.size())); }
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    static void must(bool ok) {
        if (!ok) {
            std::abort();
        }
    }
    int fd_;
    std::string path_;
};

/// The input is the file.
inline void whole(Bytes input, MemoryFile& file) { file.append(input); }

template <class Decoder>
const auto& counts_of(const Decoder& decoder) {
    if constexpr (requires { decoder.sink(); }) {
        return decoder.sink();
    } else {
        return decoder;
    }
}

template <class Decoder>
void decode_everything(const std::string& path) {
    try {
        Decoder decoder(path, 200);  // small batches: their edges are met often
        while (decoder.next() != nullptr) {
        }
        const auto& end = counts_of(decoder);
        (void)end.counts(false);
        (void)end.counts(true);
        (void)decoder.problems();
        (void)decoder.missing();
        for (const std::string& name : end.tasks().comms().names()) {
            (void)decode::escape(name);
        }
    } catch (const decode::Error& e) {
        if (*e.what() == '\0') {
            std::abort();  // an error says what is wrong
        }
    }
}

}  // namespace rewake::fuzz

#define REWAKE_FUZZ_TARGET(Decoder, bytes_to_file)                            \
    extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);  \
    extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) { \
        static rewake::fuzz::MemoryFile file;                                 \
        file.clear();                                                         \
        bytes_to_file(rewake::fuzz::Bytes(data, size), file);                 \
        rewake::fuzz::decode_everything<Decoder>(file.path());                \
        return 0;                                                             \
    }
