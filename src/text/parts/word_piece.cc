// WordPiece: the longest token that begins the word, then again for what is left, each time with the prefix "##".
#include <fmt/format.h>

#include "base/strings.h"
#include "text/parts/component.h"
#include "text/parts/model.h"
#include "text/parts/trie.h"
#include "text/parts/word_cache.h"
#include "text/unicode/unicode.h"

namespace hone::text {
namespace {

struct WordPieceScratch final : ModelScratch {
  WordCache cache;
};

class WordPiece final : public Model {
 public:
  WordPiece(const ModelConfig& config, const std::string& where)
      : vocabulary_(read_vocabulary(config.vocab, where + ".vocab")),
        unk_token_(get_string(config.json, "unk_token", where)),
        unk_id_(vocabulary_.find(unk_token_)),
        most_characters_(get_int(config.json, "max_input_chars_per_word", where, 0, INT64_MAX)) {
    std::vector<std::pair<std::string_view, std::int32_t>> keys;
    keys.reserve(vocabulary_.size());
    for (std::int32_t id = 0; id < vocabulary_.end_id(); ++id)
      if (vocabulary_.has(id)) keys.emplace_back(vocabulary_.token(id), id);
    trie_ = Trie(std::move(keys));
    const std::string prefix = get_string(config.json, "continuing_subword_prefix", where);
    inside_ = trie_.walk(prefix);
    continues_ = prefix.empty() || inside_ != Trie::kNone;
  }

  std::unique_ptr<ModelScratch> make_scratch() const override { return std::make_unique<WordPieceScratch>(); }
  const Vocabulary& vocabulary() const override { return vocabulary_; }

  void tokenize(std::string_view word, ModelScratch& scratch, std::vector<Token>& out) const override {
    WordCache& cache = static_cast<WordPieceScratch&>(scratch).cache;
    if (cache.find(word, 0, out)) return;
    const std::size_t first = out.size();
    if (is_too_long(word) || !cut(word, out)) {
      if (unk_id_ < 0) fail_unknown(word, unk_token_);
      out.resize(first);
      out.push_back({unk_id_, 0, static_cast<std::uint32_t>(word.size())});
    }
    cache.keep(word, 0, out, first);
  }

 private:
  bool is_too_long(std::string_view word) const {
    if (word.size() <= static_cast<std::uint64_t>(most_characters_)) return false;
    std::int64_t characters = 0;
    for (const char c : word) characters += !is_continuation(c);
    return characters > most_characters_;
  }

  bool cut(std::string_view word, std::vector<Token>& out) const {
    for (std::size_t begin = 0; begin < word.size();) {
      if (begin > 0 && !continues_) return false;
      std::int32_t found = -1;
      std::size_t end = begin;
      std::uint32_t node = begin == 0 ? 0 : inside_;
      for (std::size_t at = begin; at < word.size();) {
        node = trie_.child(node, word[at++]);
        if (node == Trie::kNone) break;
        if (trie_.value(node) >= 0) found = trie_.value(node), end = at;
      }
      if (found < 0) return false;
      out.push_back({found, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
      begin = end;
    }
    return true;
  }

  Vocabulary vocabulary_;
  std::string unk_token_;
  std::int32_t unk_id_;
  std::int64_t most_characters_;
  Trie trie_;
  std::uint32_t inside_ = 0;  // where tokens go on that begin with the prefix
  bool continues_ = true;     // there are such tokens
};

}  // namespace

std::unique_ptr<Model> make_word_piece(const ModelConfig& config, const std::string& where) {
  return std::make_unique<WordPiece>(config, where);
}

}  // namespace hone::text
