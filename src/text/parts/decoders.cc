// ByteLevel, ByteFallback, Metaspace, Replace, Fuse, Strip, BPEDecoder and Sequence.
#include "text/parts/decoders.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "text/parts/component.h"
#include "text/regex/pattern.h"
#include "text/unicode/unicode.h"

namespace hone::text {
namespace {

using TokenTexts = std::vector<std::string>;

std::string join(const TokenTexts& tokens, std::string_view between) {
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) text += between;
    text += tokens[i];
  }
  return text;
}

// A token that holds a character outside the byte alphabet stands for its own UTF-8.
void append_bytes(std::string& to, const std::string& token) {
  const std::size_t before = to.size();
  for (std::size_t at = 0; at < token.size();) {
    const int byte = byte_of_character(next_code_point(token, at));
    if (byte < 0) {
      to.resize(before);
      to += token;
      return;
    }
    to += static_cast<char>(byte);
  }
}

class ByteLevel final : public Decoder {
 public:
  void apply(TokenTexts& tokens) const override {
    std::string bytes;
    for (const std::string& token : tokens) append_bytes(bytes, token);
    tokens.assign(1, lossy_utf8(bytes));
  }
  bool local(bool& fused) const override { return !std::exchange(fused, true); }
};

class Fuse final : public Decoder {
 public:
  void apply(TokenTexts& tokens) const override { tokens.assign(1, join(tokens, "")); }
  bool local(bool& fused) const override { return fused = true; }
};

// The byte of "<0x0A>", else -1; as the library, which also takes "<0x+A>".
int fallback_byte(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  const auto digit = [](char c) {
    const char low = static_cast<char>(c | 32);
    return c >= '0' && c <= '9' ? c - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
  };
  const int high = token[3] == '+' ? 0 : digit(token[3]), low = digit(token[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

class ByteFallback final : public Decoder {
 public:
  void apply(TokenTexts& tokens) const override {
    TokenTexts out;
    std::string bytes;
    const auto close = [&] {
      if (bytes.empty()) return;
      if (is_utf8(bytes))
        out.push_back(bytes);
      else
        out.insert(out.end(), bytes.size(), std::string(kReplacementChar));
      bytes.clear();
    };
    for (std::string& token : tokens) {
      const int byte = fallback_byte(token);
      if (byte >= 0) {
        bytes += static_cast<char>(byte);
        continue;
      }
      close();
      out.push_back(std::move(token));
    }
    close();
    tokens = std::move(out);
  }
  bool local(bool& fused) const override { return !fused; }
};

class Metaspace final : public Decoder {
 public:
  Metaspace(const Json& config, const std::string& where) {
    append_utf8(mark_, get_char(config, "replacement", where));
    const bool prefix = get_bool(config, "add_prefix_space", where, true);
    prepends_ = get_string(config, "prepend_scheme", where, prefix ? "always" : "never") != "never";
  }
  void apply(TokenTexts& tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = replace_all(std::move(tokens[i]), mark_, i == 0 && prepends_ ? "" : " ");
  }
  bool local(bool& fused) const override { return !fused || mark_.size() > 0; }

 private:
  std::string mark_;
  bool prepends_;
};

class Replace final : public Decoder {
 public:
  Replace(const Json& config, const std::string& where)
      : pattern_(member(config, "pattern"), where + ".pattern"), content_(get_string(config, "content", where)) {
    const Json& pattern = member(config, "pattern");
    const std::string text = pattern.value("String", "");
    one_character_ = !text.empty() && utf8_length(text[0]) == text.size();
  }
  void apply(TokenTexts& tokens) const override {
    RegexScratch scratch;
    for (std::string& token : tokens) {
      std::string out;
      std::size_t done = 0;
      pattern_.each_match(token, scratch, [&](std::size_t begin, std::size_t end) {
        out.append(token, done, begin - done);
        out += content_;
        done = end;
      });
      out.append(token, done, token.size() - done);
      token = std::move(out);
    }
  }
  bool local(bool& fused) const override { return !fused || one_character_; }

 private:
  Pattern pattern_;
  std::string content_;
  bool one_character_;
};

class Strip final : public Decoder {
 public:
  Strip(const Json& config, const std::string& where)
      : start_(get_int(config, "start", where, 0, INT32_MAX)), stop_(get_int(config, "stop", where, 0, INT32_MAX)) {
    append_utf8(mark_, get_char(config, "content", where));
  }
  void apply(TokenTexts& tokens) const override {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (std::int64_t n = 0; n < start_ && rest.starts_with(mark_); ++n) rest.remove_prefix(mark_.size());
      for (std::int64_t n = 0; n < stop_ && rest.ends_with(mark_); ++n) rest.remove_suffix(mark_.size());
      token = std::string(rest);
    }
  }
  bool local(bool& fused) const override { return !fused || stop_ == 0; }

 private:
  std::string mark_;
  std::int64_t start_, stop_;
};

class BpeDecoder final : public Decoder {
 public:
  explicit BpeDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  void apply(TokenTexts& tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = replace_all(std::move(tokens[i]), suffix_, i + 1 == tokens.size() ? "" : " ");
  }
  bool local(bool& fused) const override { return !fused; }

 private:
  std::string suffix_;
};

constexpr std::string_view kDecoderTypes =
    "ByteLevel, ByteFallback, Metaspace, Replace, Fuse, Strip, BPEDecoder, "
    "WordPiece, CTC, Sequence";

std::unique_ptr<Decoder> make(const std::string& type, const Json& config, const std::string& where) {
  if (type == "ByteLevel") return std::make_unique<ByteLevel>();
  if (type == "ByteFallback") return std::make_unique<ByteFallback>();
  if (type == "Fuse") return std::make_unique<Fuse>();
  if (type == "Metaspace") return std::make_unique<Metaspace>(config, where);
  if (type == "Replace") return std::make_unique<Replace>(config, where);
  if (type == "Strip") return std::make_unique<Strip>(config, where);
  if (type == "WordPiece") return make_word_piece_decoder(config, where);
  if (type == "CTC") return make_ctc_decoder(config, where);
  if (type == "BPEDecoder") {
    const std::string suffix = get_string(config, "suffix", where);
    if (suffix.empty()) fail_at(where + ".suffix", "is empty");
    return std::make_unique<BpeDecoder>(suffix);
  }
  fail_type(where, type, kDecoderTypes);
}

void add(std::vector<std::unique_ptr<Decoder>>& to, const Json& config, const std::string& where) {
  const std::string type = type_of(config, where);
  if (type != "Sequence") return to.push_back(make(type, config, where));
  const Json& list = get_list(config, "decoders", where);
  for (std::size_t i = 0; i < list.size(); ++i) add(to, list[i], item_at(where, "decoders", i));
}

}  // namespace

Decoders::Decoders(const Json& config, const std::string& where) : present_(!config.is_null()) {
  if (present_) add(steps_, config, where);
}

std::string Decoders::decode(std::vector<std::string> tokens) const {
  for (const auto& step : steps_) step->apply(tokens);
  return join(tokens, present_ ? "" : " ");
}

bool Decoders::local() const {
  bool fused = false;
  return std::all_of(steps_.begin(), steps_.end(), [&](const auto& step) { return step->local(fused); });
}

}  // namespace hone::text
