// Ids of added tokens and their search.
#include "text/parts/added_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/strings.h"
#include "text/parts/component.h"
#include "text/unicode/unicode.h"

namespace hone::text {
namespace {

bool is_word(char32_t c) { return (class_table()[c] & kWord) || c == 0x200C || c == 0x200D; }
bool is_space(char32_t c) { return class_table()[c] & kSpace; }

std::string normalized_content(const std::string& content, const Normalizers& normalizers) {
  Work work;
  work.start(content);
  Aligned text;
  if (!work.pieces.empty()) work.copy_to(text, work.pieces[0]);
  RegexScratch scratch;
  normalize(normalizers, text, scratch);
  return text.text;
}

}  // namespace

AddedToken read_added_token(const Json& config, const std::string& where) {
  AddedToken token;
  token.content = get_string(config, "content", where);
  token.id = config.contains("id") ? get_int(config, "id", where, 0, kMaxId - 1) : -1;
  token.single_word = get_bool(config, "single_word", where, false);
  token.left_strip = get_bool(config, "lstrip", where, false);
  token.right_strip = get_bool(config, "rstrip", where, false);
  token.special = get_bool(config, "special", where, false);
  token.normalized = get_bool(config, "normalized", where, !token.special);
  return token;
}

bool TokenTrie::add(std::string_view token, std::int32_t value) {
  if (token.empty()) return true;
  first_[static_cast<unsigned char>(token[0])] = true;
  std::uint64_t node = 0;
  for (const char c : token) {
    const std::uint64_t edge = node << 8 | static_cast<unsigned char>(c);
    std::uint64_t to = edges_.find(edge);
    if (to == FlatMap::kNone) {
      to = values_.size();
      values_.push_back(-1);
      edges_.set(edge, to);
    }
    node = to;
  }
  if (values_[node] >= 0) return false;
  values_[node] = value;
  return true;
}

std::int32_t TokenTrie::match(std::string_view text, std::size_t at, std::size_t& end) const {
  std::int32_t found = -1;
  std::uint64_t node = 0;
  while (at < text.size()) {
    node = edges_.find(node << 8 | static_cast<unsigned char>(text[at]));
    if (node == FlatMap::kNone) break;
    ++at;
    if (values_[node] >= 0) {
      found = values_[node];
      end = at;
    }
  }
  return found;
}

std::size_t TokenTrie::next(std::string_view text, std::size_t at) const {
  while (at < text.size() && !first_[static_cast<unsigned char>(text[at])]) ++at;
  return at;
}

void AddedTokens::add(const std::vector<AddedToken>& tokens, const Vocabulary& model, const Normalizers& normalizers,
                      const std::string& where) {
  // The library counts on from the number of tokens of the model, not from its highest id.
  std::int64_t next_id = std::max<std::int64_t>(end_id_, static_cast<std::int64_t>(model.size()));
  for (const AddedToken& token : tokens) {
    if (token.content.empty()) continue;
    std::int64_t id = find(token.content);
    if (id < 0) id = model.find(token.content);
    if (id < 0) id = next_id++;
    if (token.id >= 0 && token.id != id)
      throw Error(ErrorKind::config, fmt::format("{}: the added token {}: got id {}, expected {}", where,
                                                 hone::quoted(token.content), token.id, id))
          .hint("ids of added tokens follow the vocabulary without holes, and a token has one id");
    if (id >= kMaxId) fail_at(where, fmt::format("more than {} ids", kMaxId));
    std::string spelled = token.normalized ? normalized_content(token.content, normalizers) : token.content;
    ids_[token.content] = static_cast<std::int32_t>(id);
    looks_around_ = looks_around_ || token.single_word || token.left_strip || token.right_strip;
    if (token.special) special_[token.content] = true;
    end_id_ = std::max(end_id_, static_cast<std::int32_t>(id) + 1);
    entries_[static_cast<std::int32_t>(id)] = {token, std::move(spelled)};
  }
  raw_ = normalized_ = TokenTrie();
  for (const auto& [id, entry] : entries_)
    if (!(entry.token.normalized ? normalized_ : raw_).add(entry.spelled, id))
      fail_at(where, fmt::format("two added tokens become {} by the normalizer", hone::quoted(entry.spelled)));
}

std::vector<AddedToken> AddedTokens::list() const {
  std::vector<AddedToken> tokens;
  for (const auto& [id, entry] : entries_) {
    tokens.push_back(entry.token);
    tokens.back().id = id;
  }
  std::sort(tokens.begin(), tokens.end(), [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  return tokens;
}

std::int32_t AddedTokens::find(std::string_view content) const {
  const auto found = ids_.find(std::string(content));
  return found == ids_.end() ? -1 : found->second;
}
const std::string* AddedTokens::token(std::int32_t id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second.spelled;
}
bool AddedTokens::is_special(std::string_view content) const { return special_.contains(std::string(content)); }

void AddedTokens::split(Work& work, const TokenTrie& trie) const {
  if (trie.empty()) return;
  const std::string_view text = work.text();
  bool any = false;
  for (const Piece& p : work.pieces) any = any || (p.id < 0 && trie.next(text.substr(0, p.end), p.begin) < p.end);
  if (!any) return;
  work.split(
      [&](const Piece& piece, std::vector<Piece>& out) { split_piece(piece, text.substr(0, piece.end), trie, out); });
}

// `text` ends where the piece ends; the strips and the test for a word look at the piece alone.
void AddedTokens::split_piece(const Piece& piece, std::string_view text, const TokenTrie& trie,
                              std::vector<Piece>& out) const {
  std::size_t done = piece.begin;
  const auto push = [&](std::size_t begin, std::size_t end, std::int32_t id) {
    out.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end), id});
  };
  for (std::size_t at = trie.next(text, piece.begin), end = 0; at < text.size(); at = trie.next(text, at)) {
    const std::int32_t id = trie.match(text, at, end);
    if (id < 0) {
      ++at;
      continue;
    }
    std::size_t begin = at, stop = end;
    at = end;
    const AddedToken& token = entries_.at(id).token;
    if (token.single_word) {
      std::size_t after = stop;
      if (begin > piece.begin && is_word(code_point_before(text, begin))) continue;
      if (stop < text.size() && is_word(next_code_point(text, after))) continue;
    }
    // Blanks that the token before has taken to its right are its own; this one may have nothing left.
    if (token.left_strip) begin = std::max(begin, done);
    if (begin >= stop) continue;
    while (token.left_strip && begin > done && is_space(code_point_before(text, begin))) do
        --begin;
      while (is_continuation(text[begin]));
    for (std::size_t next = stop; token.right_strip && next < text.size() && is_space(next_code_point(text, next));)
      stop = next;
    if (done < begin) push(done, begin, -1);
    push(begin, stop, id);
    done = stop;
  }
  if (done < text.size()) push(done, text.size(), -1);
}

}  // namespace hone::text
