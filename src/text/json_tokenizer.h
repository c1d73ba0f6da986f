// A tokenizer as tokenizer.json describes it: added tokens, normalizer, pre-tokenizer, model, post-processor, decoder.
#pragma once

#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "hone/text.h"
#include "text/added_tokens.h"
#include "text/decoders.h"
#include "text/model.h"
#include "text/post_processors.h"
#include "text/pre_tokenizers.h"

namespace hone::text {

class JsonTokenizer final : public Tokenizer {
 public:
  // `where` begins every message: the file's path. extra: tokens that tokenizer_config.json adds.
  // `truncation` and `padding` are left alone, as transformers does: whoever asks for ids decides their number.
  JsonTokenizer(const nlohmann::json& config, const std::string& where, const std::vector<AddedToken>& extra = {});
  ~JsonTokenizer() override;

  Encoding encode(std::string_view text, bool special = true) const override;
  std::string decode(const std::vector<std::int32_t>& ids, bool skip_special = true) const override;
  std::int64_t vocab_size() const override;
  std::optional<std::int32_t> id_of(std::string_view token) const override;
  std::optional<std::string> token_of(std::int32_t id) const override;
  bool is_special(std::int32_t id) const override;
  bool decodes_in_parts() const override { return decoders_.local(); }

  // Puts bos_id and eos_id around every text, or not, instead of what the post-processor does.
  void set_ends(bool bos, bool eos);
  // Sets adds_bos and adds_eos from what encode() puts around a text; after bos_id and eos_id are known.
  void note_added_ends();

 private:
  struct Scratch;
  struct Lease;
  std::vector<bool> find_special() const;
  void prepare(Work& work, Scratch& scratch) const;
  void check_text(std::string_view text) const;
  void trim(std::string_view token, bool keep_first_blank, bool first, std::string_view input,
            std::pair<std::uint32_t, std::uint32_t>& offset) const;
  Encoding surround(bool special, Encoding inner) const;

  Normalizers normalizers_;
  PreTokenizers pre_tokenizers_;
  std::unique_ptr<Model> model_;
  AddedTokens added_;
  PostProcessor post_processor_;
  Decoders decoders_;
  std::vector<bool> special_;  // by id
  bool any_bytes_ = false;     // nothing looks at characters: bytes that are no UTF-8 are fine too
  mutable std::mutex mutex_;   // guards free_
  mutable std::vector<std::unique_ptr<Scratch>> free_;
};

}  // namespace hone::text
