// Byte-pair encoding over characters or bytes, with fallbacks for unknown characters.
//
// Words are cut further where no merge can reach across: then the parts are found in the cache, and a text without any
// pre-tokenizer (Llama 2, Mistral) costs no more than one with.
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "base/strings.h"
#include "text/formats/json_cursor.h"
#include "text/parts/bpe_merge.h"
#include "text/parts/component.h"
#include "text/parts/model.h"
#include "text/parts/word_cache.h"
#include "text/unicode/unicode.h"

namespace hone::text {
namespace {

struct BpeScratch final : ModelScratch {
  WordCache cache;
  std::vector<Symbol> symbols;
  Merger merger;
};

struct Config {
  std::string unk_token, prefix, suffix;
  bool has_unk = false, fuse_unk = false, byte_fallback = false, ignore_merges = false;
};

Config read_config(const Json& config, const std::string& where) {
  Config c;
  c.has_unk = config.contains("unk_token") && !config["unk_token"].is_null();
  c.unk_token = get_string(config, "unk_token", where, "");
  c.prefix = get_string(config, "continuing_subword_prefix", where, "");
  c.suffix = get_string(config, "end_of_word_suffix", where, "");
  c.fuse_unk = get_bool(config, "fuse_unk", where, false);
  c.byte_fallback = get_bool(config, "byte_fallback", where, false);
  c.ignore_merges = get_bool(config, "ignore_merges", where, false);
  const auto dropout = config.find("dropout");
  if (dropout != config.end() && !dropout->is_null() && !(dropout->is_number() && dropout->get<double>() == 0))
    fail_at(where + ".dropout", fmt::format("got {}, expected null: ids must not be random", dropout->dump()));
  return c;
}

class Bpe final : public Model {
 public:
  Bpe(const ModelConfig& config, const std::string& where, bool spelled_bytes)
      : c_(read_config(config.json, where)), vocabulary_(read_vocabulary(config.vocab, where + ".vocab")) {
    plain_ = c_.prefix.empty() && c_.suffix.empty();
    bytes_ = spelled_bytes && plain_ && !c_.byte_fallback && find_bytes();
    find_symbols();
    if (bytes_ && c_.ignore_merges) find_words();
    read_merges(config.merges, where + ".merges");
  }

  std::unique_ptr<ModelScratch> make_scratch() const override { return std::make_unique<BpeScratch>(); }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  bool takes_bytes() const override { return bytes_; }

  void tokenize(std::string_view word, ModelScratch& scratch, std::vector<Token>& out) const override {
    auto& s = static_cast<BpeScratch&>(scratch);
    if (c_.ignore_merges) {
      const std::int32_t id = bytes_ ? words_.find(word) : vocabulary_.find(word);
      if (id >= 0) return out.push_back({id, 0, static_cast<std::uint32_t>(word.size())});
    }
    if (!plain_) return look_up(word, 0, s, out);
    if (bytes_ && merges_.empty()) return spell(word, out);
    for (std::size_t begin = 0; begin < word.size();) {
      const std::size_t end = word.size() - begin <= WordCache::kBytes && bytes_ ? word.size() : part_end(word, begin);
      look_up(word.substr(begin, end - begin), static_cast<std::uint32_t>(begin), s, out);
      begin = end;
    }
  }

 private:
  // -------------------------------------------------------------------------------------------------- reading
  bool find_bytes() {
    for (int b = 0; b < 256; ++b) {
      std::string spelled;
      append_utf8(spelled, byte_characters()[b]);
      byte_ids_[static_cast<std::size_t>(b)] = vocabulary_.find(spelled);
      if (byte_ids_[static_cast<std::size_t>(b)] < 0) return false;
    }
    return true;
  }

  // Characters that are tokens, and the tokens of bytes that stand in for those that are not.
  void find_symbols() {
    ascii_.fill(-1);
    for (std::int32_t id = 0; id < vocabulary_.end_id(); ++id) {
      if (!vocabulary_.has(id)) continue;
      const std::string_view token = vocabulary_.token(id);
      if (token.empty() || utf8_length(token[0]) != token.size()) continue;
      std::size_t at = 0;
      const char32_t character = next_code_point(token, at);
      characters_.set(character, static_cast<std::uint64_t>(id));
      if (character < 128) ascii_[character] = id;
    }
    for (unsigned b = 0; b < 256; ++b) fallback_[b] = vocabulary_.find(fmt::format("<0x{:02X}>", b));
    unk_id_ = c_.has_unk ? vocabulary_.find(c_.unk_token) : -1;
  }

  void find_words() {
    for (std::int32_t id = 0; id < vocabulary_.end_id(); ++id) {
      std::string bytes;
      if (vocabulary_.has(id) && as_bytes(vocabulary_.token(id), bytes)) words_.add(bytes, id);
    }
  }

  static bool as_bytes(std::string_view token, std::string& bytes) {
    for (std::size_t at = 0; at < token.size();) {
      const int byte = byte_of_character(next_code_point(token, at));
      if (byte < 0) return false;
      bytes += static_cast<char>(byte);
    }
    return true;
  }

  // ["left right", ...] or [["left", "right"], ...]
  void read_merges(std::string_view text, const std::string& where) {
    if (text.empty() || text[0] != '[') fail_at(where, "expected a list");
    merges_.reserve(text.size() / 40);
    JsonCursor cursor(text, where);
    std::uint32_t rank = 0;
    std::string left, right, merged;
    cursor.each_element([&](std::size_t i) {
      if (!read_merge(cursor, left, right)) {
        if (left.starts_with("#version")) return;
        fail_at(fmt::format("{}[{}]", where, i), "expected two tokens, as [left, right] or \"left right\"");
      }
      merged.assign(left);
      merged.append(right, std::min(c_.prefix.size(), right.size()));
      add_merge(left, right, merged, rank++, [&] { return fmt::format("{}[{}]", where, i); });
    });
  }

  static bool read_merge(JsonCursor& cursor, std::string& left, std::string& right) {
    left.clear();
    if (cursor.peek() == '"') {
      left = cursor.string();
      const std::size_t space = left.find(' ');
      if (left.starts_with("#version") || space == std::string::npos || left.find(' ', space + 1) != std::string::npos)
        return false;
      right.assign(left, space + 1);
      left.resize(space);
      return true;
    }
    if (!cursor.maybe('[') || cursor.peek() != '"') return false;
    left = cursor.string();
    if (!cursor.maybe(',') || cursor.peek() != '"') return left.clear(), false;
    right = cursor.string();
    return cursor.maybe(']') || (left.clear(), false);
  }

  template <class Where>
  void add_merge(std::string_view left, std::string_view right, std::string_view merged, std::uint32_t rank,
                 Where&& where) {
    const std::int32_t ids[] = {vocabulary_.find(left), vocabulary_.find(right), vocabulary_.find(merged)};
    const std::string_view names[] = {left, right, merged};
    for (int k = 0; k < 3; ++k)
      if (ids[k] < 0) fail_at(where(), fmt::format("the token {} is not in the vocabulary", hone::quoted(names[k])));
    merges_.set(ids[0], ids[1], rank, ids[2]);
    if (plain_) note_neighbours(merged);
  }

  // Which characters (or bytes) stand side by side inside a token that merging can make.
  void note_neighbours(std::string_view token) {
    char32_t before = 0;
    for (std::size_t at = 0; at < token.size();) {
      const bool first = at == 0;
      char32_t c = next_code_point(token, at);
      if (bytes_) c = static_cast<char32_t>(std::max(0, byte_of_character(c)));
      if (!first) note_pair(before, c);
      before = c;
    }
  }
  void note_pair(char32_t a, char32_t b) {
    if ((a | b) < 256)
      near_[a][b >> 6] |= std::uint64_t{1} << (b & 63);
    else
      far_.set(static_cast<std::uint64_t>(a) << 32 | b, 1);
  }
  bool joined(char32_t a, char32_t b) const {
    if ((a | b) < 256) return near_[a][b >> 6] >> (b & 63) & 1;
    return far_.find(static_cast<std::uint64_t>(a) << 32 | b) != FlatMap::kNone;
  }

  // -------------------------------------------------------------------------------------------------- encoding
  std::int32_t character_id(char32_t c) const {
    if (c < 128) return ascii_[c];
    const std::uint64_t found = characters_.find(c);
    return found == FlatMap::kNone ? -1 : static_cast<std::int32_t>(found);
  }

  // The end of the part that begins here: a place that no merge reaches across, between two characters that are tokens
  // (unknown ones may be fused with their neighbours).
  std::size_t part_end(std::string_view word, std::size_t at) const {
    if (bytes_) {
      for (++at; at < word.size(); ++at)
        if (!joined(static_cast<unsigned char>(word[at - 1]), static_cast<unsigned char>(word[at]))) break;
      return at;
    }
    char32_t before = next_code_point(word, at);
    bool known = character_id(before) >= 0;
    while (at < word.size()) {
      const std::size_t here = at;
      const char32_t c = next_code_point(word, at);
      const bool c_known = character_id(c) >= 0;
      if (known && c_known && !joined(before, c)) return here;
      before = c;
      known = c_known;
    }
    return at;
  }

  void look_up(std::string_view part, std::uint32_t begin, BpeScratch& s, std::vector<Token>& out) const {
    if (s.cache.find(part, begin, out)) return;
    const std::size_t first = out.size();
    compute(part, begin, s, out);
    s.cache.keep(part, begin, out, first);
  }

  void compute(std::string_view part, std::uint32_t begin, BpeScratch& s, std::vector<Token>& out) const {
    s.symbols.clear();
    if (bytes_) {
      for (const char b : part) s.symbols.push_back({byte_ids_[static_cast<unsigned char>(b)], 1});
    } else {
      begin += add_symbols(part, s);
    }
    s.merger.merge(merges_, s.symbols);
    for (const Symbol& symbol : s.symbols) {
      out.push_back({symbol.id, begin, begin + symbol.size});
      begin += symbol.size;
    }
  }

  // Characters as tokens, as their bytes, or as the unknown token, in the library's order: an unknown token that is
  // still open (it may be fused) comes out after the bytes that follow it. A character that is none of these is
  // dropped: the token before takes its place in the offsets (the library's would be wrong from there on), else the
  // bytes that are returned come before the first symbol.
  std::uint32_t add_symbols(std::string_view part, BpeScratch& s) const {
    std::uint32_t open = 0, before = 0;  // open: bytes of the unknown token that is not written yet
    const auto close = [&] {
      if (open) s.symbols.push_back({unk_id_, open});
      open = 0;
    };
    for (std::size_t at = 0; at < part.size();) {
      const std::size_t begin = at;
      const char32_t c = next_code_point(part, at);
      const auto size = static_cast<std::uint32_t>(at - begin);
      std::string decorated;
      if (!plain_) decorated = decorate(part.substr(begin, size), begin == 0, at == part.size());
      const std::int32_t id = plain_ ? character_id(c) : vocabulary_.find(decorated);
      if (id >= 0) {
        close();
        s.symbols.push_back({id, size});
        continue;
      }
      if (c_.byte_fallback && add_bytes(plain_ ? part.substr(begin, size) : decorated, s)) continue;
      if (!c_.has_unk) {
        (s.symbols.empty() ? before : s.symbols.back().size) += size;
        continue;
      }
      if (unk_id_ < 0) fail_unknown(part.substr(begin, size), c_.unk_token);
      if (!c_.fuse_unk) close();
      open += size;
    }
    close();
    return before;
  }

  std::string decorate(std::string_view character, bool first, bool last) const {
    return (first ? "" : c_.prefix) + std::string(character) + (last ? c_.suffix : "");
  }

  bool add_bytes(std::string_view bytes, BpeScratch& s) const {
    for (const char b : bytes)
      if (fallback_[static_cast<unsigned char>(b)] < 0) return false;
    for (const char b : bytes) s.symbols.push_back({fallback_[static_cast<unsigned char>(b)], 1});
    return true;
  }

  void spell(std::string_view word, std::vector<Token>& out) const {
    for (std::uint32_t i = 0; i < word.size(); ++i)
      out.push_back({byte_ids_[static_cast<unsigned char>(word[i])], i, i + 1});
  }

  Config c_;
  Vocabulary vocabulary_, words_;  // words_: tokens by their bytes, for ignore_merges
  MergeTable merges_;
  bool plain_ = true, bytes_ = false;
  std::array<std::int32_t, 256> byte_ids_{}, fallback_{};
  std::array<std::int32_t, 128> ascii_{};
  FlatMap characters_, far_;
  std::array<std::array<std::uint64_t, 4>, 256> near_{};
  std::int32_t unk_id_ = -1;
};

}  // namespace

std::unique_ptr<Model> make_bpe(const ModelConfig& config, const std::string& where, bool spelled_bytes) {
  return std::make_unique<Bpe>(config, where, spelled_bytes);
}

}  // namespace hone::text
