// WordPiece and CTC, and the cleaning of blanks before punctuation that both do.
#include <array>
#include <utility>

#include "base/strings.h"
#include "text/parts/component.h"
#include "text/parts/decoders.h"

namespace hone::text {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;
constexpr std::array<Pair, 7> kBefore = {Pair{" .", "."}, {" ?", "?"},     {" !", "!"},  {" ,", ","},
                                         {" ' ", "'"},    {" n't", "n't"}, {" 'm", "'m"}};
constexpr std::array<Pair, 3> kAfter = {Pair{" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};

class WordPieceDecoder final : public Decoder {
 public:
  WordPieceDecoder(const Json& config, const std::string& where)
      : prefix_(get_string(config, "prefix", where)), cleans_(get_bool(config, "cleanup", where)) {}

  void apply(std::vector<std::string>& tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0 && token.starts_with(prefix_))
        token.erase(0, prefix_.size());
      else if (i > 0)
        token.insert(0, 1, ' ');
      if (cleans_) token = clean_up(std::move(token), true);
    }
  }
  bool local(bool& fused) const override { return !fused; }

 private:
  std::string prefix_;
  bool cleans_;
};

// Equal tokens side by side are one; the pad token is nothing.
class Ctc final : public Decoder {
 public:
  Ctc(const Json& config, const std::string& where)
      : pad_(get_string(config, "pad_token", where)),
        delimiter_(get_string(config, "word_delimiter_token", where)),
        cleans_(get_bool(config, "cleanup", where)) {}

  void apply(std::vector<std::string>& tokens) const override {
    std::vector<std::string> out;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0 && tokens[i] == tokens[i - 1]) continue;
      std::string token = replaced(tokens[i], pad_, "");
      if (cleans_) token = replaced(clean_up(std::move(token), true), delimiter_, " ");
      if (!token.empty()) out.push_back(std::move(token));
    }
    tokens = std::move(out);
  }
  bool local(bool&) const override { return false; }

 private:
  // An empty text is found between all characters.
  static std::string replaced(const std::string& text, const std::string& from, std::string_view to) {
    if (!from.empty()) return replace_all(text, from, to);
    std::string out(to);
    for (std::size_t i = 0; i < text.size(); ++i) {
      out += text[i];
      if (i + 1 == text.size() || (static_cast<unsigned char>(text[i + 1]) & 0xC0) != 0x80) out += to;
    }
    return out;
  }
  std::string pad_, delimiter_;
  bool cleans_;
};

}  // namespace

std::string clean_up(std::string text, bool do_not) {
  if (text.find(' ') == std::string::npos) return text;
  for (const auto& [from, to] : kBefore) text = replace_all(std::move(text), from, to);
  if (do_not) text = replace_all(std::move(text), " do not", " don't");
  for (const auto& [from, to] : kAfter) text = replace_all(std::move(text), from, to);
  return text;
}

std::unique_ptr<Decoder> make_word_piece_decoder(const Json& config, const std::string& where) {
  return std::make_unique<WordPieceDecoder>(config, where);
}
std::unique_ptr<Decoder> make_ctc_decoder(const Json& config, const std::string& where) {
  return std::make_unique<Ctc>(config, where);
}

}  // namespace hone::text
