// What the files beside a tokenizer.json say of special tokens.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/parts/added_tokens.h"
#include "text/tokenizer/files.h"

namespace hone::text {

// tokenizer_config.json, special_tokens_map.json and added_tokens.json together, as transformers 5.23 reads them: the
// last two count only where the first has no added_tokens_decoder, and the map then wins over it.
struct SpecialConfig {
  // bos_token and the like, then a model's own (image_token), in the order in which transformers adds them.
  std::vector<std::pair<std::string, AddedToken>> named;
  std::vector<AddedToken> extra;   // extra_special_tokens, formerly additional_special_tokens
  std::vector<AddedToken> listed;  // added_tokens_decoder or added_tokens.json, by id
  const AddedToken* find(const std::string& name) const;  // of those that are named
};
// where: the folder, for messages. Throws Error(config) also for split_special_tokens.
SpecialConfig read_special_config(const Files& files, const std::string& where);

}  // namespace hone::text
