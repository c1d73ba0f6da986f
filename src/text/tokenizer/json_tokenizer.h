// A tokenizer as tokenizer.json describes it: added tokens, normalizer, pre-tokenizer, model, post-processor, decoder.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "hone/text.h"
#include "text/parts/added_tokens.h"
#include "text/parts/decoders.h"
#include "text/parts/limits.h"
#include "text/parts/model.h"
#include "text/parts/post_processors.h"
#include "text/parts/pre_tokenizers.h"
#include "text/tokenizer/tokenizer_file.h"

namespace hone::text {

class JsonTokenizer final : public Tokenizer {
 public:
  // `where` begins every message: the file's path. extra: tokens that tokenizer_config.json adds.
  JsonTokenizer(const TokenizerFile& file, const std::string& where, const std::vector<AddedToken>& extra = {});
  ~JsonTokenizer() override;

  Encoding encode(std::string_view text, bool special = true) const override { return encode(text, special, true); }
  // With offsets that the post-processor did not trim: each token has the blanks that it holds.
  Encoding encode_untrimmed(std::string_view text, bool special = true) const { return encode(text, special, false); }
  std::string decode(const std::vector<std::int32_t>& ids, bool skip_special = true) const override;
  std::int64_t vocab_size() const override;
  std::optional<std::int32_t> id_of(std::string_view token) const override;
  std::optional<std::string> token_of(std::int32_t id) const override;
  bool is_special(std::int32_t id) const override;
  bool decodes_in_parts() const override { return decoders_.local() && !cleans_up; }
  std::vector<FullEncoding> encode_full(std::span<const TextPair> texts, bool special, int threads) const override;

  FittedEncoding encode_fitting(const TextPair& texts, std::size_t most, bool from_left) const override;

  // The same of two texts, of the ids that it makes of each alone. Throws Error(config) where it writes such a text
  // more than once.
  FittedEncoding join_fitting(std::span<const std::int64_t> first, std::span<const std::int64_t> second,
                              std::size_t most, bool from_left) const;

  // Of two texts that are put together, the second one in windows of which each begins with the last `stride` tokens of
  // the one before, so that none has more than `most` tokens in all: as truncation only_second with overflowing tokens.
  // check: is told before how many tokens the first one leaves for the second one, and how many that has; it throws
  // where there are none, or no more than `stride` where they are needed.
  using CheckRoom = std::function<void(std::size_t left, std::size_t needed)>;
  std::vector<FullEncoding> encode_windows(const TextPair& texts, std::size_t most, std::size_t stride,
                                           const CheckRoom& check) const;

  bool gives_types = true;  // to the tokens of a pair (token_types.h)
  bool cleans_up = false;  // decode() takes blanks before punctuation out: tokenizer_config.json asks for it

  // All added tokens, those of the files beside tokenizer.json too, and behind them the new ones with the ids they get.
  std::vector<AddedToken> list_added(const std::vector<NewToken>& tokens) const;

  // Sets adds_bos and adds_eos from what encode() puts around a text; after bos_id and eos_id are known.
  void note_added_ends();

 private:
  struct Scratch;
  struct Lease;
  std::vector<bool> find_special() const;
  void prepare(Work& work, Scratch& scratch) const;
  void check_text(std::string_view text) const;
  Encoding encode(std::string_view text, bool special, bool trim) const;
  template <class Push>
  void tokenize_piece(const Piece& piece, Scratch& scratch, Push&& push) const;
  Draft draft_part(std::string_view text, int which) const;
  std::vector<Draft> draft_parts(const TextPair& texts) const;
  Draft draft(const TextPair& texts, bool special) const;
  FittedEncoding fit(std::vector<Draft> parts, const TextPair& texts, std::size_t most, bool from_left) const;
  Encoding surround(bool special, Encoding inner) const;

  Normalizers normalizers_;
  PreTokenizers pre_tokenizers_;
  std::unique_ptr<Model> model_;
  AddedTokens added_;
  PostProcessor post_processor_;
  Decoders decoders_;
  std::optional<Truncation> truncation_;
  std::optional<Padding> padding_;
  std::vector<bool> special_;  // by id
  bool any_bytes_ = false;     // nothing looks at characters: bytes that are no UTF-8 are fine too
  mutable std::mutex mutex_;   // guards free_
  mutable std::vector<std::unique_ptr<Scratch>> free_;
};

}  // namespace hone::text
