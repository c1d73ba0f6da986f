// What a fresh model's config.json takes from its tokenizer, and what of it nobody reads.
#pragma once

#include <string>
#include <vector>

#include "hone/config.h"
#include "hone/text.h"

namespace hone::hub {

// Fills in what config.json does not say: vocab_size, and the ids that begin, end and pad a text. An id that the
// tokenizer does not have, or for which the model has no row, is null: transformers takes an absent one for 1 or 2.
// tokenizer: null if there is none.
void add_tokenizer_keys(config::Node& hf_config, const Tokenizer* tokenizer);

// Ids of a config.json that was made for another tokenizer become this one's, but for those that were typed. An id that
// the tokenizer does not have, or for which the model has no row, changes nothing. Returns what has changed:
// "eos_token_id 257 (was 2)".
std::vector<std::string> take_tokenizer_ids(config::Node& hf_config, const Tokenizer& tokenizer);

// Whether hone has all of such a model, and not at most its texts' half.
bool has_whole(const config::Node& hf_config);
// Of a model of texts and images its texts' half as a config.json of its own, where hone has that and not the whole, or
// where the file says that it is of a classifier, which a whole never is; itself, where it has not, or where it is no
// such model.
config::Node of_texts(const config::Node& hf_config);
// The same half also where hone has the whole. Error(config): there is none. file: for messages
config::Node half_of(const config::Node& hf_config, const std::string& file);

// The keys that change nothing of a model that is made from it, as torch_dtype. Throws as build_model() does for a type
// that is not there. file: for messages
std::vector<std::string> keys_without_effect(const config::Node& hf_config, const std::string& file);

// What is wrong with the keys of a model that is to be made afresh, as far as that is known before there is a
// tokenizer; nothing of a type that is not there.
void find_problems(const config::Node& hf_config, Problems& problems);

}  // namespace hone::hub
