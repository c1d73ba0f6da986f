// Unigram: of all ways to cut a text into tokens, the one with the highest sum of scores (Viterbi).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/strings.h"
#include "text/formats/json_cursor.h"
#include "text/parts/component.h"
#include "text/parts/model.h"
#include "text/parts/score.h"
#include "text/parts/trie.h"
#include "text/parts/word_cache.h"
#include "text/unicode/unicode.h"

namespace hone::text {
namespace {

constexpr double kUnknownPenalty = 10;

// The best way to a place in the text.
struct Step {
  double score = 0;
  std::uint32_t begin = 0;  // where its last token begins
  std::int32_t id = -1;     // -1: no way found yet
};

struct UnigramScratch final : ModelScratch {
  WordCache cache;
  std::vector<Step> best;
};

class Unigram final : public Model {
 public:
  Unigram(const ModelConfig& config, const std::string& where) {
    read_vocabulary(config.vocab, where + ".vocab");
    byte_fallback_ = get_bool(config.json, "byte_fallback", where, false);
    if (!member(config.json, "unk_id").is_null())
      unk_id_ = static_cast<std::int32_t>(
          get_int(config.json, "unk_id", where, 0, static_cast<std::int64_t>(vocabulary_.end_id()) - 1));
    std::vector<std::pair<std::string_view, std::int32_t>> keys;
    keys.reserve(vocabulary_.size());
    for (std::int32_t id = 0; id < vocabulary_.end_id(); ++id) keys.emplace_back(vocabulary_.token(id), id);
    trie_ = Trie(std::move(keys));
    for (unsigned b = 0; b < 256; ++b) fallback_[b] = vocabulary_.find(fmt::format("<0x{:02X}>", b));
  }

  std::unique_ptr<ModelScratch> make_scratch() const override { return std::make_unique<UnigramScratch>(); }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::string_view text_of(const Token& token, std::string_view word) const override {
    return token.id == unk_id_ ? word.substr(token.begin, token.end - token.begin) : vocabulary_.token(token.id);
  }

  void tokenize(std::string_view word, ModelScratch& scratch, std::vector<Token>& out) const override {
    auto& s = static_cast<UnigramScratch&>(scratch);
    if (s.cache.find(word, 0, out)) return;
    find_best(word, s.best);
    const std::size_t first = out.size();
    write(word, s.best, out);
    s.cache.keep(word, 0, out, first);
  }

 private:
  // [["token", score], ...]; a token that comes twice has its last id.
  void read_vocabulary(std::string_view text, const std::string& where) {
    if (text.empty() || text[0] != '[') fail_at(where, "expected a list of [token, score]");
    JsonCursor cursor(text, where);
    std::string token;
    cursor.each_element([&](std::size_t i) {
      if (i >= static_cast<std::size_t>(kMaxId)) fail_at(where, fmt::format("more than {} tokens", kMaxId));
      cursor.expect('[');
      cursor.peek();
      token = cursor.string();
      cursor.expect(',');
      const std::string_view number = cursor.skip();
      cursor.expect(']');
      const auto score = read_score(number);
      if (!score) fail_at(fmt::format("{}[{}]", where, i), fmt::format("got the score {}", hone::quoted(number)));
      vocabulary_.add_or_replace(token, static_cast<std::int32_t>(i));
      scores_.push_back(*score);
      unk_score_ = std::min(unk_score_, *score - kUnknownPenalty);
    });
  }

  void find_best(std::string_view word, std::vector<Step>& best) const {
    best.assign(word.size() + 1, Step());
    const auto offer = [&](std::size_t end, double score, std::size_t begin, std::int32_t id) {
      Step& step = best[end];
      if (step.id >= 0 && !(score > step.score)) return;
      if (id < 0) fail_unknown(word.substr(begin, end - begin), "");
      step = {score, static_cast<std::uint32_t>(begin), id};
    };
    for (std::size_t begin = 0; begin < word.size();) {
      const double before = best[begin].score;
      const std::size_t next = std::min(begin + utf8_length(word[begin]), word.size());
      bool single = false;
      std::uint32_t node = 0;
      for (std::size_t at = begin; at < word.size();) {
        node = trie_.child(node, word[at++]);
        if (node == Trie::kNone) break;
        const std::int32_t id = trie_.value(node);
        if (id < 0) continue;
        offer(at, scores_[static_cast<std::size_t>(id)] + before, begin, id);
        single = single || at == next;
      }
      if (!single) offer(next, unk_score_ + before, begin, unk_id_);
      begin = next;
    }
  }

  // The way back from the end; unknown characters side by side are one token.
  void write(std::string_view word, const std::vector<Step>& best, std::vector<Token>& out) const {
    const std::size_t first = out.size();
    for (std::size_t end = word.size(); end > 0;) {
      std::size_t begin = best[end].begin;
      const bool unknown = best[end].id == unk_id_;
      while (unknown && begin > 0 && best[begin].id == unk_id_) begin = best[begin].begin;
      if (unknown)
        add_unknown(word, begin, end, out);
      else
        out.push_back({best[end].id, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
      end = begin;
    }
    std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
  }

  // A run of unknown characters: a token after all, its bytes, or the unknown token. Written back to front.
  void add_unknown(std::string_view word, std::size_t begin, std::size_t end, std::vector<Token>& out) const {
    const std::string_view part = word.substr(begin, end - begin);
    const auto from = static_cast<std::uint32_t>(begin), to = static_cast<std::uint32_t>(end);
    if (const std::int32_t id = vocabulary_.find(part); id >= 0) return out.push_back({id, from, to});
    const auto has = [&](char b) { return fallback_[static_cast<unsigned char>(b)] >= 0; };
    if (!byte_fallback_ || !std::all_of(part.begin(), part.end(), has)) return out.push_back({unk_id_, from, to});
    for (std::size_t i = part.size(); i > 0; --i)
      out.push_back({fallback_[static_cast<unsigned char>(part[i - 1])], from, to});
  }

  Vocabulary vocabulary_;
  std::vector<double> scores_;
  Trie trie_;
  std::array<std::int32_t, 256> fallback_{};
  double unk_score_ = std::numeric_limits<double>::infinity();
  std::int32_t unk_id_ = -1;
  bool byte_fallback_ = false;
};

}  // namespace

std::unique_ptr<Model> make_unigram(const ModelConfig& config, const std::string& where) {
  return std::make_unique<Unigram>(config, where);
}

}  // namespace hone::text
