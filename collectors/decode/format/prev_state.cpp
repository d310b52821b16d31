// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/format/prev_state.hpp"

#include <cctype>
#include <optional>
#include <string_view>

namespace rewake::decode {
namespace {

/// Evaluates the constant masks of a print format: integers, + - | << and parentheses, with C's precedence.
class Constant {
  public:
    explicit Constant(std::string_view text) : s_(text) {}

    /// The right side of an `&` at the start of the text: what binds tighter than it.
    std::optional<uint64_t> mask() { return shift(); }

  private:
    static constexpr int kMaxDepth = 64;

    std::optional<uint64_t> operand() {
        blanks();
        if (++depth_ > kMaxDepth) {
            return {};
        }
        std::optional<uint64_t> v;
        if (at('(')) {
            v = either();
            blanks();
            if (!v || !at(')')) {
                v.reset();
            }
        } else {
            v = number();
        }
        --depth_;
        return v;
    }

    std::optional<uint64_t> either() {
        auto v = shift();
        while (v && (blanks(), at('|'))) {
            const auto w = shift();
            v = w ? std::optional(*v | *w) : w;
        }
        return v;
    }
    std::optional<uint64_t> shift() {
        auto v = sum();
        while (v && (blanks(), s_.starts_with("<<"))) {
            s_.remove_prefix(2);
            const auto w = sum();
            v = w && *w < 64 ? std::optional(*v << *w) : std::nullopt;
        }
        return v;
    }
    std::optional<uint64_t> sum() {
        auto v = operand();
        while (v) {
            blanks();
            const bool plus = at('+');
            if (!plus && !at('-')) {
                break;
            }
            const auto w = operand();
            v = w ? std::optional(plus ? *v + *w : *v - *w) : w;
        }
        return v;
    }
    std::optional<uint64_t> number() {
        size_t n = 0;
        uint64_t v = 0;
        if (s_.starts_with("0x") || s_.starts_with("0X")) {
            for (n = 2; n < s_.size() && std::isxdigit(static_cast<unsigned char>(s_[n])) != 0; ++n) {
                const char c = s_[n];
                v = v * 16 + static_cast<uint64_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
            }
        } else {
            for (; n < s_.size() && s_[n] >= '0' && s_[n] <= '9'; ++n) {
                v = v * 10 + static_cast<uint64_t>(s_[n] - '0');
            }
        }
        if (n == 0) {
            return {};
        }
        s_.remove_prefix(n);
        while (!s_.empty() && (s_[0] == 'U' || s_[0] == 'u' || s_[0] == 'L' || s_[0] == 'l')) {
            s_.remove_prefix(1);
        }
        return v;
    }
    bool at(char c) {
        if (s_.empty() || s_[0] != c) {
            return false;
        }
        s_.remove_prefix(1);
        return true;
    }
    void blanks() {
        while (!s_.empty() && s_[0] == ' ') {
            s_.remove_prefix(1);
        }
    }

    std::string_view s_;
    int depth_ = 0;
};

constexpr size_t kMostLetters = 64;  // kernels have about ten, in as many bits

PrevState by_letter(std::string_view letter) {
    if (letter == "S") return PrevState::sleeping;
    if (letter == "D") return PrevState::disk;
    if (letter == "T") return PrevState::stopped;
    if (letter == "t") return PrevState::traced;
    if (letter == "X" || letter == "x") return PrevState::dead;  // x: TASK_DEAD up to 4.13
    if (letter == "Z") return PrevState::zombie;
    if (letter == "P") return PrevState::parked;
    if (letter == "I") return PrevState::idle;
    return PrevState::other;
}

}  // namespace

PrevStates::PrevStates(const std::string& format_text) {
    const std::string_view text(format_text);
    const size_t print = text.find("print fmt:");
    const size_t flags = text.find("__print_flags(REC->prev_state", print);
    table_.fill(PrevState::other);
    table_[0] = PrevState::running;
    if (print == std::string_view::npos || flags == std::string_view::npos) {
        return;
    }
    // { VALUE, "LETTER" } pairs up to the parenthesis that closes __print_flags.
    size_t at = text.find("\"|\"", flags);
    const size_t close = text.find(" : \"R\"", flags);
    const size_t end = close == std::string_view::npos ? text.size() : close;
    while (at != std::string_view::npos && (at = text.find('{', at)) != std::string_view::npos && at < end) {
        const size_t comma = text.find(',', at), open = text.find('"', at);
        const size_t quote = open == std::string_view::npos ? open : text.find('"', open + 1);
        if (comma == std::string_view::npos || quote == std::string_view::npos || comma > open) {
            break;
        }
        const auto v = Constant(text.substr(at + 1, comma - at - 1)).mask();
        if (v && *v != 0 && letters_.size() < kMostLetters) {
            letters_.emplace_back(*v, by_letter(text.substr(open + 1, quote - open - 1)));
        }
        at = quote;
    }
    // REC->prev_state & BITS ? "+" : "": the bit that says preempted.
    const size_t plus = text.find("\"+\"", flags);
    static constexpr std::string_view kAnd = "REC->prev_state & ";
    const size_t test = plus == std::string_view::npos ? plus : text.rfind(kAnd, plus);
    if (test != std::string_view::npos) {
        preempted_ = Constant(text.substr(test + kAnd.size(), plus - test - kAnd.size())).mask().value_or(0);
    }
    const size_t masked = flags + std::string_view("__print_flags(REC->prev_state").size();
    if (text.substr(masked, 3) == " & ") {
        mask_ = Constant(text.substr(masked + 3)).mask().value_or(mask_);
    }
    known_ = !letters_.empty();
    for (size_t v = 0; v < table_.size(); ++v) {
        table_[v] = slow(v);
    }
}

PrevState PrevStates::slow(uint64_t v) const {
    if (preempted_ != 0 && (v & preempted_) != 0) {
        return PrevState::preempted;
    }
    v &= mask_;
    if (v == 0) {
        return PrevState::running;
    }
    // Several letters (3.x prints D|K for killable, D|N for idle kthreads): a dead task stays dead, else the first
    // known one.
    PrevState first = PrevState::other;
    for (const auto& [bits, state] : letters_) {
        if ((v & bits) != bits) {
            continue;
        }
        if (is_dead(state)) {
            return state;
        }
        if (first == PrevState::other) {
            first = state;
        }
    }
    return first;
}

}  // namespace rewake::decode
