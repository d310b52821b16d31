// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/format/text.hpp"

#include <charconv>
#include <string_view>

namespace rewake::decode {
namespace {

constexpr size_t kMaxName = 256, kMaxFields = 512;

bool word_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_word(std::string_view s) {
    for (const char c : s) {
        if (!word_char(c)) {
            return false;
        }
    }
    return !s.empty() && s.size() <= kMaxName;
}

/// Takes `prefix` off the front of `s`.
bool take(std::string_view& s, std::string_view prefix) {
    if (!s.starts_with(prefix)) {
        return false;
    }
    s.remove_prefix(prefix.size());
    return true;
}

/// Takes the text up to `end` and `end` itself.
std::optional<std::string_view> take_until(std::string_view& s, char end) {
    const size_t at = s.find(end);
    if (at == std::string_view::npos) {
        return {};
    }
    const std::string_view out = s.substr(0, at);
    s.remove_prefix(at + 1);
    return out;
}

template <class T>
bool number(std::string_view s, T& out) {
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), out);
    return error == std::errc() && end == s.data() + s.size();
}

/// A C declaration: words and asterisks, at most one pair of brackets with a word or nothing in them, a word as its
/// name (the last one; brackets follow it, or stand before it in `__data_loc char[] name`), and a type before the name.
/// Brackets before the name need two words before them: with `char[] name` libtraceevent 1.7 leaks.
bool declaration(std::string_view s) {
    int words = 0, brackets = 0, before_brackets = 2;
    bool named = false;  // a word was the last thing but brackets
    while (!s.empty()) {
        const char c = s[0];
        if (word_char(c)) {
            size_t n = 1;
            while (n < s.size() && word_char(s[n])) {
                ++n;
            }
            if ((c >= '0' && c <= '9') || before_brackets < 2) {
                return false;
            }
            ++words;
            named = true;
            s.remove_prefix(n);
        } else if (c == '[') {
            const size_t close = s.find(']');
            if (close == std::string_view::npos || words == 0 || ++brackets > 1 ||
                (close > 1 && !is_word(s.substr(1, close - 1)))) {
                return false;
            }
            before_brackets = words;
            s.remove_prefix(close + 1);
        } else if (c == ' ' || c == '*') {
            named = named && c == ' ';
            s.remove_prefix(1);
        } else {
            return false;
        }
    }
    return named && words >= 2;
}

/// "\tfield:DECLARATION;\toffset:N;\tsize:N;\tsigned:N;", without `signed` before 2.6.33.
bool field_line(std::string_view line, std::string& out) {
    int offset = 0, size = 0, is_signed = 0;
    if (!take(line, "\tfield:")) {
        return false;
    }
    const auto decl = take_until(line, ';');
    if (!decl || !declaration(*decl) || !take(line, "\toffset:")) {
        return false;
    }
    const auto at = take_until(line, ';');
    if (!at || !number(*at, offset) || !take(line, "\tsize:")) {
        return false;
    }
    const auto bytes = take_until(line, ';');
    if (!bytes || !number(*bytes, size) || offset < 0 || size < 0) {
        return false;
    }
    if (take(line, "\tsigned:")) {
        const auto sign = take_until(line, ';');
        if (!sign || !number(*sign, is_signed) || (is_signed & ~1) != 0) {
            return false;
        }
    }
    if (!line.empty()) {
        return false;
    }
    out += "\tfield:" + std::string(*decl) + ";\toffset:" + std::to_string(offset) + ";\tsize:" + std::to_string(size) +
           ";\tsigned:" + std::to_string(is_signed) + ";\n";
    return true;
}

}  // namespace

std::optional<CheckedFormat> check_format(const std::string& text) {
    std::string_view s(text);
    CheckedFormat f{};
    const auto name = take(s, "name: ") ? take_until(s, '\n') : std::nullopt;
    const auto id = name && take(s, "ID: ") ? take_until(s, '\n') : std::nullopt;
    if (!id || !is_word(*name) || !number(*id, f.id)) {
        return {};
    }
    f.name = *name;
    f.text = "name: " + f.name + "\nID: " + std::to_string(f.id) + "\nformat:\n";
    f.fields_ok = take(s, "format:\n");
    size_t fields = 0, groups = 0;  // common fields, an empty line, the event's own
    while (f.fields_ok && !s.starts_with("print fmt:")) {
        const auto line = take_until(s, '\n');
        if (line && line->empty() && fields > 0 && ++groups <= 2) {
            f.text += groups == 1 ? "\n" : "";
            continue;
        }
        f.fields_ok = line && ++fields <= kMaxFields && field_line(*line, f.text);
    }
    f.text += groups == 0 ? "\n" : "";
    f.text += "\nprint fmt: \"\"\n";
    return f;
}

}  // namespace rewake::decode
