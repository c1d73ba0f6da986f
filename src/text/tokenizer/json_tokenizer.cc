// The way of a text through the parts of a tokenizer, and back.
#include "text/tokenizer/json_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/strings.h"
#include "text/parts/component.h"
#include "text/tokenizer/parallel.h"

namespace hone::text {
namespace {

std::vector<AddedToken> read_added(const Json& list, const std::string& where) {
  std::vector<AddedToken> tokens;
  if (list.is_null()) return tokens;
  if (!list.is_array()) fail_at(where, fmt::format("got {}, expected a list", list.type_name()));
  for (std::size_t i = 0; i < list.size(); ++i)
    tokens.push_back(read_added_token(list[i], fmt::format("{}[{}]", where, i)));
  return tokens;
}

bool is_ascii(std::string_view text) {
  std::size_t at = 0;
  for (std::uint64_t eight; at + 8 <= text.size(); at += 8) {
    std::memcpy(&eight, text.data() + at, 8);
    if (eight & 0x8080808080808080ull) return false;
  }
  return std::all_of(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

struct JsonTokenizer::Scratch {
  Work work;
  RegexScratch regex;
  std::unique_ptr<ModelScratch> model;
  std::vector<Token> tokens;
};

// A Scratch of the tokenizer's for the time of a call: caches outlive calls without belonging to a thread.
struct JsonTokenizer::Lease {
  explicit Lease(const JsonTokenizer& from) : from(from) {
    {
      const std::lock_guard lock(from.mutex_);
      if (!from.free_.empty()) {
        scratch = std::move(from.free_.back());
        from.free_.pop_back();
      }
    }
    if (scratch) return;
    scratch = std::make_unique<Scratch>();
    scratch->model = from.model_->make_scratch();
  }
  ~Lease() {
    const std::lock_guard lock(from.mutex_);
    from.free_.push_back(std::move(scratch));
  }
  const JsonTokenizer& from;
  std::unique_ptr<Scratch> scratch;
};

JsonTokenizer::JsonTokenizer(const TokenizerFile& file, const std::string& where,
                             const std::vector<AddedToken>& extra) {
  const Json& config = file.json;
  if (!config.is_object() || !config.contains("model")) fail_at(where, "expected an object with a model");
  const Json& version = member(config, "version");
  if (!version.is_null() && version != "1.0")
    fail_at(where + ": version", fmt::format("got {}, expected \"1.0\"", version.dump()));
  pre_tokenizers_ = make_pre_tokenizers(member(config, "pre_tokenizer"), where + ": pre_tokenizer");
  model_ = make_model(file.model(), where + ": model", pre_tokenizers_.spells_bytes);
  normalizers_ = make_normalizers(member(config, "normalizer"), where + ": normalizer");
  added_.add(read_added(member(config, "added_tokens"), where + ": added_tokens"), model_->vocabulary(), normalizers_,
             where);
  added_.add(extra, model_->vocabulary(), normalizers_, where);
  post_processor_ = PostProcessor(member(config, "post_processor"), where + ": post_processor");
  decoders_ = Decoders(member(config, "decoder"), where + ": decoder");
  truncation_ = read_truncation(member(config, "truncation"), where + ": truncation");
  padding_ = read_padding(member(config, "padding"), where + ": padding");
  special_ = find_special();
  any_bytes_ = normalizers_.empty() && pre_tokenizers_.steps.empty() && model_->takes_bytes() &&
               post_processor_.trims().empty() && !added_.looks_around();
}
JsonTokenizer::~JsonTokenizer() = default;

std::vector<bool> JsonTokenizer::find_special() const {
  std::vector<bool> special(static_cast<std::size_t>(vocab_size()));
  for (std::int32_t id = 0; id < vocab_size(); ++id) {
    const auto token = token_of(id);
    special[static_cast<std::size_t>(id)] = token && added_.is_special(*token);
  }
  return special;
}

std::vector<AddedToken> JsonTokenizer::list_added(const std::vector<NewToken>& tokens) const {
  AddedTokens all = added_;
  std::vector<AddedToken> more;
  for (const NewToken& t : tokens) {
    if (t.content.empty()) throw Error(ErrorKind::usage, "add_tokens: a token is empty");
    if (added_.find(t.content) < 0)
      more.push_back({t.content, -1, t.single_word, t.left_strip, t.right_strip, t.normalized, t.special});
  }
  all.add(more, model_->vocabulary(), normalizers_, "added tokens");
  return all.list();
}

void JsonTokenizer::note_added_ends() {
  const auto& first = post_processor_.around().front();
  const auto& last = post_processor_.around().back();
  adds_bos = bos_id && !first.empty() && first.front() == *bos_id;
  adds_eos = eos_id && !last.empty() && last.back() == *eos_id;
}

void JsonTokenizer::check_text(std::string_view text) const {
  if (any_bytes_ || is_ascii(text)) return;
  if (const auto bad = first_bad_utf8(text))
    throw Error(ErrorKind::data, fmt::format("text to tokenize: not UTF-8 at byte {}; got 0x{:02x}", *bad,
                                             static_cast<unsigned char>(text[*bad])))
        .hint("convert the file to UTF-8 first");
}

// From the input to words: everything before the model.
void JsonTokenizer::prepare(Work& work, Scratch& scratch) const {
  added_.split_raw(work);
  const auto stays = [&](const auto& step) {
    return std::all_of(work.pieces.begin(), work.pieces.end(),
                       [&](const Piece& p) { return p.id >= 0 || step->leaves(work.text(p)); });
  };
  if (!std::all_of(normalizers_.begin(), normalizers_.end(), stays)) {
    work.rewrite([&](const Piece& piece, Aligned& to) {
      Aligned text;
      text.limit = work.limit();
      text.base = work.origin(piece.begin, piece.end).begin;
      work.copy_to(text, piece);
      normalize(normalizers_, text, scratch.regex);
      to.append(text, 0, text.text.size());
    });
    std::erase_if(work.pieces, [](const Piece& p) { return p.begin == p.end; });
  }
  added_.split_normalized(work);
  for (const auto& step : pre_tokenizers_.steps) step->apply(work, scratch.regex);
  if (pre_tokenizers_.spells_bytes && !model_->takes_bytes()) spell_bytes(work);
}

// push(id, begin, end, text of the token) for the tokens of a piece.
template <class Push>
void JsonTokenizer::tokenize_piece(const Piece& piece, Scratch& scratch, Push&& push) const {
  const std::string_view text = scratch.work.text(piece);
  if (piece.id >= 0) return push(piece.id, piece.begin, piece.end, text);
  scratch.tokens.clear();
  model_->tokenize(text, *scratch.model, scratch.tokens);
  const bool trims = !post_processor_.trims().empty();
  for (const Token& t : scratch.tokens) {
    // A token of an end-of-word suffix may reach beyond its word.
    const std::uint32_t begin = std::min(piece.begin + t.begin, piece.end - 1);
    const std::uint32_t end = std::clamp(piece.begin + t.end, begin + 1, piece.end);
    push(t.id, begin, end, trims ? model_->text_of(t, text) : std::string_view());
  }
}

Encoding JsonTokenizer::encode(std::string_view text, bool special, bool trim) const {
  check_text(text);
  const Lease lease(*this);
  Scratch& scratch = *lease.scratch;
  Work& work = scratch.work;
  work.start(text);
  prepare(work, scratch);
  Encoding out;
  out.ids.reserve(text.size() / 4 + 8);
  out.offsets.reserve(text.size() / 4 + 8);
  const auto push = [&](std::int32_t id, std::size_t begin, std::size_t end, std::string_view token) {
    const Origin origin = work.origin(begin, end);
    std::pair<std::uint32_t, std::uint32_t> offset{origin.begin, origin.end};
    if (trim)
      for (const bool keep_first : post_processor_.trims())
        trim_offsets(count_blanks(token), keep_first, out.ids.empty(), text, offset);
    out.ids.push_back(id);
    out.offsets.push_back(offset);
  };
  for (const Piece& piece : work.pieces) tokenize_piece(piece, scratch, push);
  return surround(special, std::move(out));
}

Draft JsonTokenizer::draft_part(std::string_view text, int which) const {
  check_text(text);
  const Lease lease(*this);
  Scratch& scratch = *lease.scratch;
  Work& work = scratch.work;
  work.start(text);
  prepare(work, scratch);
  Draft out;
  for (std::size_t i = 0; i < work.pieces.size(); ++i)
    tokenize_piece(work.pieces[i], scratch,
                   [&](std::int32_t id, std::size_t begin, std::size_t end, std::string_view token) {
                     const Origin origin = work.origin(begin, end);
                     out.entries.push_back({.id = id,
                                            .type = which,
                                            .word = static_cast<std::int32_t>(i),
                                            .offset = {origin.begin, origin.end},
                                            .blanks = count_blanks(token)});
                   });
  return out;
}

std::vector<Draft> JsonTokenizer::draft_parts(const TextPair& texts) const {
  std::vector<Draft> parts;
  parts.push_back(draft_part(texts.first, 0));
  if (texts.second) parts.push_back(draft_part(*texts.second, 1));
  return parts;
}

Draft JsonTokenizer::draft(const TextPair& texts, bool special) const {
  std::vector<Draft> parts = draft_parts(texts);
  if (truncation_) truncation_->apply(parts, special ? post_processor_.added(parts.size() > 1) : 0);
  return post_processor_.apply(std::move(parts), special, texts);
}

std::vector<FullEncoding> JsonTokenizer::encode_full(std::span<const TextPair> texts, bool special, int threads) const {
  std::vector<Draft> drafts(texts.size());
  in_parallel(texts.size(), threads, [&](std::size_t i) { drafts[i] = draft(texts[i], special); });
  if (padding_) padding_->apply(drafts);
  std::vector<FullEncoding> out;
  out.reserve(drafts.size());
  for (Draft& d : drafts) out.push_back(std::move(d).finish());
  return out;
}

FittedEncoding JsonTokenizer::encode_fitting(const TextPair& texts, std::size_t most, bool from_left) const {
  return fit(draft_parts(texts), texts, most, from_left);
}

FittedEncoding JsonTokenizer::join_fitting(std::span<const std::int64_t> first, std::span<const std::int64_t> second,
                                           std::size_t most, bool from_left) const {
  const auto& around = post_processor_.around();
  if (around.size() != 2)
    throw Error(ErrorKind::config, "the tokenizer writes a text more than once, and none can be taken out of it");
  const std::size_t before = around[0].size(), behind = around[1].size();
  std::vector<Draft> parts(2);
  for (const auto& [which, ids] : {std::pair(0, first), {1, second}}) {
    HONE_ASSERT(ids.size() >= before + behind);
    for (const std::int64_t id : ids.subspan(before, ids.size() - before - behind))
      parts[static_cast<std::size_t>(which)].entries.push_back(
          {.id = static_cast<std::int32_t>(id), .type = which, .word = 0, .offset = {0, 0}, .blanks = {}});
  }
  return fit(std::move(parts), {.first = "", .second = ""}, most, from_left);
}

FittedEncoding JsonTokenizer::fit(std::vector<Draft> parts, const TextPair& texts, std::size_t most,
                                  bool from_left) const {
  FittedEncoding out;
  if (most > 0) out.cut = shorten(parts, most, post_processor_.added(parts.size() > 1), from_left);
  FullEncoding full = post_processor_.apply(std::move(parts), true, texts).finish();
  out.ids = std::move(full.ids);
  out.type_ids = std::move(full.type_ids);
  return out;
}

std::vector<FullEncoding> JsonTokenizer::encode_windows(const TextPair& texts, std::size_t most, std::size_t stride,
                                                        const CheckRoom& check) const {
  std::vector<Draft> parts = draft_parts(texts);
  const std::size_t around = post_processor_.added(/*pair=*/true) + parts[0].entries.size();
  check(most - std::min(most, around), parts[1].entries.size());
  Truncation{most, stride, Truncation::Which::second, /*from_left=*/false}.apply(parts, post_processor_.added(true));
  FullEncoding first = post_processor_.apply(std::move(parts), true, texts).finish();
  std::vector<FullEncoding> all{std::move(first)};
  for (FullEncoding& other : std::exchange(all[0].overflow, {})) all.push_back(std::move(other));
  return all;
}

Encoding JsonTokenizer::surround(bool special, Encoding inner) const {
  const auto& around = post_processor_.around();
  if (around.size() == 2 && around[0].empty() && around[1].empty()) return inner;
  Encoding out;
  for (std::size_t i = 0; i < around.size(); ++i) {
    if (i > 0) {
      out.ids.insert(out.ids.end(), inner.ids.begin(), inner.ids.end());
      out.offsets.insert(out.offsets.end(), inner.offsets.begin(), inner.offsets.end());
    }
    if (!special) continue;
    out.ids.insert(out.ids.end(), around[i].begin(), around[i].end());
    out.offsets.resize(out.ids.size());
  }
  return out;
}

std::string JsonTokenizer::decode(const std::vector<std::int32_t>& ids, bool skip_special) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const std::int32_t id : ids) {
    if (skip_special && is_special(id)) continue;
    if (auto token = token_of(id)) tokens.push_back(std::move(*token));
  }
  std::string text = decoders_.decode(std::move(tokens));
  return cleans_up ? clean_up(std::move(text), false) : text;
}

std::int64_t JsonTokenizer::vocab_size() const { return std::max(model_->vocabulary().end_id(), added_.end_id()); }

std::optional<std::int32_t> JsonTokenizer::id_of(std::string_view token) const {
  std::int32_t id = added_.find(token);
  if (id < 0) id = model_->vocabulary().find(token);
  return id < 0 ? std::nullopt : std::optional(id);
}

std::optional<std::string> JsonTokenizer::token_of(std::int32_t id) const {
  if (const std::string* added = added_.token(id)) return *added;
  if (!model_->vocabulary().has(id)) return std::nullopt;
  return std::string(model_->vocabulary().token(id));
}

bool JsonTokenizer::is_special(std::int32_t id) const {
  return id >= 0 && static_cast<std::size_t>(id) < special_.size() && special_[static_cast<std::size_t>(id)];
}

}  // namespace hone::text
